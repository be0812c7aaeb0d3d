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
    _check_ratio(ratio)
    frequent = labels[~np.isin(labels, rare)]
    if not len(frequent):
        raise ValueError(f"the rare classes {tuple(rare)} leave no class that is frequent")
    share = max(1, round(np.bincount(frequent).max() / ratio))
    return _keep(labels, dict.fromkeys(rare, share), seed)


def exponential_imbalance(
    labels: Int[np.ndarray, " n"], num_classes: int, ratio: float, seed: int
) -> Int[np.ndarray, " kept"]:
    r"""Keeps :math:`n_{max} r^{-k / (K - 1)}` examples of class k of K: a long tail.

    :math:`n_{max}` is the size of the largest class. Sizes are rounded down, as in the
    long-tailed CIFAR of Cui et al. 2019 and Cao et al. 2019.

    Args:
      labels: ``[n]``, as they will be trained on.
      num_classes: K. The first class is the most frequent, the last the rarest.
      ratio: r, the size of the first class over that of the last, at least 1.
      seed: The choice depends on nothing else.

    Returns:
      The indices of the kept examples, ascending. A class keeps at least one of its
      examples, and all if it has fewer than its share.

    Raises:
      ValueError: if the ratio is below 1.
    """
    _check_ratio(ratio)
    largest = np.bincount(labels).max()
    exponents = np.arange(num_classes) / max(num_classes - 1, 1)
    # A millionth of an example, so that 5000 / 100 is not 49.
    shares = np.maximum(1, np.floor(largest * ratio**-exponents + 1e-6).astype(int))
    return _keep(labels, dict(enumerate(shares.tolist())), seed)


def _check_ratio(ratio: float) -> None:
    if not ratio >= 1:
        raise ValueError(f"imbalance ratio {ratio} must be at least 1")


def _keep(labels: np.ndarray, shares: dict[int, int], seed: int) -> Int[np.ndarray, " kept"]:
    rng = np.random.default_rng(seed)
    kept = np.ones(len(labels), bool)
    for label, share in shares.items():
        kept[rng.permutation(np.flatnonzero(labels == label))[share:]] = False
    return np.flatnonzero(kept)
