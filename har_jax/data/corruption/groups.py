"""Labels that move within groups of classes that are like one another."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Int

from har_jax.data.classes import Classes
from har_jax.data.corruption.base import Mislabelling, check_class
from har_jax.options import Option


@dataclasses.dataclass(frozen=True)
class Groups:
    """Labels of a class move to the other classes of its group, never to itself: pairs, say."""

    groups: Annotated[
        tuple, Option("the groups, each of two classes or more, such as ((3, 8), (4, 9))")
    ]
    rate: Annotated[float, Option("the share of each of these classes that moves", ge=0, le=1)]

    def __post_init__(self) -> None:
        said = f"groups={self.groups}"
        if not (
            self.groups
            and all(isinstance(group, tuple) and len(group) > 1 for group in self.groups)
        ):
            raise ValueError(
                f"{said} must hold groups of two classes or more, such as ((3, 8), (4, 9)), or "
                "kind be 'none'"
            )
        labels = [label for group in self.groups for label in group]
        for label in labels:
            check_class(label, said)
        if len(set(labels)) < len(labels):
            raise ValueError(f"{said} names a class twice: remove one")

    def of(self, classes: Classes) -> Mislabelling:
        key = "data.noise.groups"
        groups = tuple(classes.ids(group, key) for group in self.groups)
        every = classes.ids([label for group in groups for label in group], key)
        return exchanging(groups, every, self.rate)


def exchanging(
    groups: Sequence[Sequence[int]], classes: Sequence[int], rate: float
) -> Mislabelling:
    """:func:`exchange_within_groups` as noise on some classes."""
    return Mislabelling(
        tuple(sorted(classes)),
        lambda labels, seed: exchange_within_groups(labels, groups, rate, seed),
    )


def exchange_within_groups(
    labels: Int[np.ndarray, " n"], groups: Sequence[Sequence[int]], rate: float, seed: int
) -> Int[np.ndarray, " n"]:
    """Moves labels to other classes of the same group.

    Of every class in a group, ``round(rate * size)`` examples, drawn at random, take the
    label of another class of the group, each with the same probability and never their own:
    the share of each class that is mislabelled is exactly the rate, up to that rounding. All
    flips are made at once from the clean labels, so that none is flipped back.

    Groups of two exchange labels within pairs; one group of all classes is symmetric noise,
    in the sense that ``rate`` is the share of wrong labels (some call ``K / (K - 1)`` of that
    the rate, and let labels be redrawn as themselves).

    Args:
      labels: ``[n]``, clean.
      groups: Groups of two classes or more, all different.
      rate: The share of each class that is flipped, in ``[0, 1]``.
      seed: The choice depends on nothing else.

    Returns:
      ``[n]``, the noisy labels.

    Raises:
      ValueError: if the rate is outside of ``[0, 1]``, a group has less than two classes, or
        a class occurs twice.

    Example:
      >>> exchange_within_groups(np.array([0, 0, 1, 1, 2]), [(0, 1)], rate=1.0, seed=0)
      array([1, 1, 0, 0, 2])
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"noise rate {rate} must be in [0, 1]")
    if any(len(group) < 2 for group in groups):
        raise ValueError(f"the groups {tuple(groups)} must have two classes or more each")
    classes = [label for group in groups for label in group]
    if len(set(classes)) != len(classes):
        raise ValueError(f"the groups {tuple(groups)} name a class twice")
    rng, target_rng = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    noisy = labels.copy()
    for group in groups:
        for label in group:
            members = np.flatnonzero(labels == label)
            flipped = rng.permutation(members)[: round(rate * len(members))]
            others = np.array([other for other in group if other != label], labels.dtype)
            noisy[flipped] = target_rng.choice(others, len(flipped))
    return noisy
