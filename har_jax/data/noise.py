"""Label noise: pure functions of clean labels and a seed."""

import collections
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


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
