"""A long tail: classes that are rarer and rarer."""

import dataclasses
from typing import Annotated

import numpy as np
from jaxtyping import Int

from har_jax.data.classes import Classes
from har_jax.data.corruption.base import Thinning, check_ratio, keep
from har_jax.options import Option


@dataclasses.dataclass(frozen=True)
class Exponential:
    """Sizes fall exponentially from the first class to the last; the latter half counts as rare."""

    ratio: Annotated[float, Option("of the first class over the last", ge=1)]

    def of(self, classes: Classes) -> Thinning:
        count = len(classes.names)
        return Thinning(
            tuple(range((count + 1) // 2, count)),
            lambda labels, seed: exponential_imbalance(labels, count, self.ratio, seed),
        )


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
    check_ratio(ratio)
    largest = np.bincount(labels).max()
    exponents = np.arange(num_classes) / max(num_classes - 1, 1)
    # A millionth of an example, so that 5000 / 100 is not 49.
    shares = np.maximum(1, np.floor(largest * ratio**-exponents + 1e-6).astype(int))
    return keep(labels, dict(enumerate(shares.tolist())), seed)
