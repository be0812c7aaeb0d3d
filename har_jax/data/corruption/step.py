"""Some classes that are rare, all alike."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Int

from har_jax.data.classes import Classes
from har_jax.data.corruption.base import Thinning, check_class, check_ratio, keep
from har_jax.data.examples import DataError
from har_jax.options import Option


@dataclasses.dataclass(frozen=True)
class Step:
    """Of some classes examples are left out, until all of these are equally rare."""

    classes: Annotated[tuple, Option("the rare ones")]
    ratio: Annotated[float, Option("of the most frequent other class over each of these", ge=1)]

    def __post_init__(self) -> None:
        said = f"classes={self.classes}"
        if not self.classes:
            raise ValueError("classes is empty: name rare classes, or take kind='none'")
        for label in self.classes:
            check_class(label, said)
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(f"{said} names a class twice: remove one")

    def of(self, classes: Classes) -> Thinning:
        rare = classes.ids(self.classes, "data.imbalance.classes")
        if len(rare) == len(classes.names):
            raise DataError(
                f"config.data.imbalance.classes names all {len(rare)} classes of {classes.source}: "
                "leave some frequent"
            )
        rare = tuple(sorted(rare))
        return Thinning(rare, lambda labels, seed: step_imbalance(labels, rare, self.ratio, seed))


def step_imbalance(
    labels: Int[np.ndarray, " n"], rare: Sequence[int], ratio: float, seed: int
) -> Int[np.ndarray, " kept"]:
    """Keeps of every rare class ``1 / ratio`` of what the most frequent other class has.

    Args:
      labels: ``[n]``, as they will be trained on: noise comes first, as in the authors' code.
      rare: The rare classes.
      ratio: The size of the most frequent class that is not rare over that of a rare one,
        at least 1.
      seed: The choice depends on nothing else.

    Returns:
      The indices of the kept examples, ascending. A rare class keeps at least one of its
      examples, and all if it has fewer than its share.

    Raises:
      ValueError: if the ratio is below 1, or every class is rare.
    """
    check_ratio(ratio)
    frequent = labels[~np.isin(labels, rare)]
    if not len(frequent):
        raise ValueError(f"the rare classes {tuple(rare)} leave no class that is frequent")
    share = max(1, round(np.bincount(frequent).max() / ratio))
    return keep(labels, dict.fromkeys(rare, share), seed)
