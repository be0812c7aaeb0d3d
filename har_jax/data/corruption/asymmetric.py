"""Labels that move from one class to another, at a rate for each such pair."""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Int

from har_jax.data.classes import Classes
from har_jax.data.corruption.base import Mislabelling, check_class
from har_jax.data.examples import DataError
from har_jax.options import Option


@dataclasses.dataclass(frozen=True)
class Asymmetric:
    """Labels move from one class to another, at a rate for each."""

    flips: Annotated[
        tuple, Option("a class, another one and a rate each, such as (('cat', 'dog', 0.4),)")
    ]

    def __post_init__(self) -> None:
        said = f"flips={self.flips}"
        if not (
            self.flips and all(isinstance(flip, tuple) and len(flip) == 3 for flip in self.flips)
        ):
            raise ValueError(
                f"{said} must hold a class, another one and a rate each, such as "
                "(('cat', 'dog', 0.4),)"
            )
        for label, other, rate in self.flips:
            if label == other or not (type(rate) in (int, float) and 0 <= rate <= 1):
                raise ValueError(
                    f"{said} holds {(label, other, rate)!r}: two different classes and a rate from "
                    "0 to 1 are needed"
                )
            total = sum(flip[2] for flip in self.flips if flip[0] == label)
            if total > 1 + 1e-9:
                raise ValueError(f"{said} moves {total:g} of class {label!r}: at most 1 is there")
        for label in (label for *pair, _ in self.flips for label in pair):
            check_class(label, said)

    def of(self, classes: Classes) -> Mislabelling:
        flips = tuple(
            (*classes.ids((label, other), "data.noise.flips"), rate)
            for label, other, rate in self.flips
        )
        try:
            flip_classes(np.zeros(0, np.int32), flips, seed=0)  # of what is named by id and by name
        except ValueError as error:
            raise DataError(f"config.data.noise.flips={self.flips}: {error}") from error
        return Mislabelling(
            tuple(sorted({label for *pair, _ in flips for label in pair})),
            lambda labels, seed: flip_classes(labels, flips, seed),
        )


def flip_classes(
    labels: Int[np.ndarray, " n"], flips: Sequence[tuple[int, int, float]], seed: int
) -> Int[np.ndarray, " n"]:
    """Moves labels from some classes to others, at a rate for each.

    Args:
      labels: ``[n]``, clean.
      flips: ``(class, other class, rate)``: of the examples of the first, ``round(rate * size)``,
        drawn at random, take the label of the second. All at once: none moves twice.
      seed: The choice depends on nothing else.

    Returns:
      ``[n]``, the noisy labels.

    Raises:
      ValueError: if a class is to become itself, or the rates of one are negative or add up to
        more than 1.

    Example:
      >>> flip_classes(np.array([0, 0, 0, 0, 1, 1]), [(0, 1, 0.25), (1, 0, 1.0)], seed=0)
      array([0, 0, 1, 0, 0, 0])
    """
    totals: dict[int, float] = collections.defaultdict(float)
    for label, other, rate in flips:
        totals[label] += rate
        if label == other or rate < 0 or totals[label] > 1 + 1e-9:
            raise ValueError(
                f"class {label} cannot be flipped to {other} at the rate {rate}: it takes another "
                "class, and rates that are not negative and at most 1 in all"
            )
    rng = np.random.default_rng(seed)
    order = {label: rng.permutation(np.flatnonzero(labels == label)) for label in sorted(totals)}
    noisy, taken = labels.copy(), collections.Counter[int]()
    for label, other, rate in flips:
        first = taken[label]
        taken[label] = min(first + round(rate * len(order[label])), len(order[label]))
        noisy[order[label][first : taken[label]]] = other
    return noisy
