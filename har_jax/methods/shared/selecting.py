"""How the examples are selected that a method is trained on."""

import dataclasses
from typing import Annotated, Literal

from har_jax.options import Option

KindOfNoise = Literal["symmetric", "asymmetric"]
"""Wrong labels of all other classes, or of one for each class."""


@dataclasses.dataclass(frozen=True)
class CrossValidation:
    """Iterative noisy cross-validation, by :mod:`har_jax.estimation.cross_validation`."""

    noise: Annotated[
        KindOfNoise,
        Option("the kind that is expected; of symmetric noise, examples are removed for good"),
    ] = "asymmetric"
    rounds: Annotated[int, Option("of selection, each of two models", ge=1, le=100)] = 4
    share: Annotated[
        float,
        Option("of config.train.epochs that each of these models is trained for", gt=0, le=1),
    ] = 0.25
