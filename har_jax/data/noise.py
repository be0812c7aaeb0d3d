"""Label noise: pure functions of clean labels and a seed."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


def exchange_pairs(
    labels: Int[np.ndarray, " n"], pairs: Sequence[tuple[int, int]], rate: float, seed: int
) -> Int[np.ndarray, " n"]:
    """Exchanges labels between the two classes of each pair.

    Of every class in a pair, ``round(rate * size)`` examples, drawn at random, take the
    label of the other: the rate of each class is exact, up to that rounding. All flips
    are made at once from the clean labels, so that none is flipped back.

    Args:
      labels: ``[n]``, clean.
      pairs: Pairs of classes, all different.
      rate: The share of each class that is flipped, in ``[0, 1]``.
      seed: The choice depends on nothing else.

    Returns:
      ``[n]``, the noisy labels.

    Raises:
      ValueError: if the rate is outside of ``[0, 1]`` or a class is in two pairs.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"noise rate {rate} must be in [0, 1]")
    classes = [label for pair in pairs for label in pair]
    if len(set(classes)) != len(classes):
        raise ValueError(f"the pairs {tuple(pairs)} name a class twice")
    rng = np.random.default_rng(seed)
    noisy = labels.copy()
    for pair in pairs:
        for label, other in (pair, pair[::-1]):
            members = np.flatnonzero(labels == label)
            flipped = rng.permutation(members)[: round(rate * len(members))]
            noisy[flipped] = other
    return noisy
