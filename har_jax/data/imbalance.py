"""Class imbalance by dropping examples: pure functions of labels and a seed."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


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
    if not ratio >= 1:
        raise ValueError(f"imbalance ratio {ratio} must be at least 1")
    rng = np.random.default_rng(seed)
    frequent = labels[~np.isin(labels, rare)]
    if not len(frequent):
        raise ValueError(f"the rare classes {tuple(rare)} leave no class that is frequent")
    share = max(1, round(np.bincount(frequent).max() / ratio))
    kept = np.ones(len(labels), bool)
    for label in rare:
        members = np.flatnonzero(labels == label)
        kept[rng.permutation(members)[share:]] = False
    return np.flatnonzero(kept)
