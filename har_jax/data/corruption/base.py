"""What noise and imbalance do to a training set, once it is known which classes there are."""

import dataclasses
from collections.abc import Callable
from typing import Protocol

import numpy as np
from jaxtyping import Int

from har_jax.data.classes import Classes


@dataclasses.dataclass(frozen=True)
class Mislabelling:
    """Noise on the labels of a data set.

    Attributes:
      classes: Those that labels are moved from, or to, ascending.
      apply: ``(labels [n], seed) -> [n]``, the noisy labels.
    """

    classes: tuple[int, ...]
    apply: Callable[[Int[np.ndarray, " n"], int], Int[np.ndarray, " n"]]


@dataclasses.dataclass(frozen=True)
class Thinning:
    """Imbalance of a data set, by leaving examples out.

    Attributes:
      rare: The classes that are made rare, ascending.
      keep: ``(labels [n], seed) -> [kept]``, the indices of what is kept, ascending.
    """

    rare: tuple[int, ...]
    keep: Callable[[Int[np.ndarray, " n"], int], Int[np.ndarray, " kept"]]


class Noise(Protocol):
    """A kind of label noise, whose classes are ids or names."""

    def of(self, classes: Classes, /) -> Mislabelling:
        """On these classes; ``DataError`` if it names others."""
        ...


class Imbalance(Protocol):
    """A kind of imbalance, whose classes are ids or names."""

    def of(self, classes: Classes, /) -> Thinning:
        """On these classes; ``DataError`` if it names others."""
        ...


def none() -> None:
    """Labels, or sizes of classes, as they are."""


def check_class(label: object, option: str) -> None:
    """Raises ``ValueError``, which begins with the option, unless it is an id or a name."""
    if type(label) not in (int, str):
        raise ValueError(f"{option} holds {label!r}: a class is an id or a name")


def keep(labels: np.ndarray, shares: dict[int, int], seed: int) -> Int[np.ndarray, " kept"]:
    """The indices of so many examples of some classes, at random, and of all others."""
    rng = np.random.default_rng(seed)
    kept = np.ones(len(labels), bool)
    for label, share in shares.items():
        kept[rng.permutation(np.flatnonzero(labels == label))[share:]] = False
    return np.flatnonzero(kept)


def check_ratio(ratio: float) -> None:
    """Raises ``ValueError`` unless a ratio is one of frequent over rare."""
    if not ratio >= 1:
        raise ValueError(f"imbalance ratio {ratio} must be at least 1")
