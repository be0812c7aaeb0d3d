"""Labels that move to any other class."""

import dataclasses
from typing import Annotated

from har_jax.data.classes import Classes
from har_jax.data.corruption.base import Mislabelling
from har_jax.data.corruption.groups import exchanging
from har_jax.options import Option


@dataclasses.dataclass(frozen=True)
class Symmetric:
    """One group of all classes, so that the rate is the share of wrong labels."""

    rate: Annotated[float, Option("the share of each class that moves", ge=0, le=1)]

    def of(self, classes: Classes) -> Mislabelling:
        everything = tuple(range(len(classes.names)))
        return exchanging((everything,), everything, self.rate)
