"""What a class counts by how many examples it has."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from har_jax.options import Option

Beta = Annotated[float, Option("0 weighs classes alike, 1 by inverse frequency", ge=0, lt=1)]


def class_balanced_weights(
    counts: Int[np.ndarray, " K"] | Sequence[int], beta: float = 0.9999
) -> Float[np.ndarray, " K"]:
    r"""Computes :math:`w_k \propto (1 - \beta) / (1 - \beta^{n_k})`, of mean one.

    The inverse of the effective number of examples (eq. 2 of Cui et al. 2019).

    Args:
      counts: ``[K]``, the training examples of each class.
      beta: In ``[0, 1)``: 0 weighs all classes alike, 1 would weigh by inverse frequency.

    Returns:
      ``[K]`` weights, whose mean over the classes that have examples is 1; 0 for a class
      without examples.

    Raises:
      ValueError: if beta is outside of ``[0, 1)``, a count is negative or all are 0.

    Example:
      >>> class_balanced_weights([1, 100_000_000], beta=0.9).round(3)
      array([1.818, 0.182])
    """
    counts = checked_counts(counts)
    if not 0 <= beta < 1:
        raise ValueError(f"beta={beta} must be in [0, 1)")
    present = counts > 0
    weights = np.where(present, (1 - beta) / (1 - beta ** np.maximum(counts, 1)), 0.0)
    return weights / weights[present].mean()


def checked_counts(counts: Int[np.ndarray, " K"] | Sequence[int]) -> Int[np.ndarray, " K"]:
    """As an array; ``ValueError`` if one is negative or all are 0."""
    counts = np.asarray(counts)
    if np.any(counts < 0) or not np.any(counts):
        raise ValueError(f"counts must not be negative, and not all 0; got {counts.tolist()}")
    return counts
