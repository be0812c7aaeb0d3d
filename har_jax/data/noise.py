"""Label noise: pure functions of clean labels and a seed."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


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
