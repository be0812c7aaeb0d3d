r"""Class-balanced loss weights, from an epoch on: deferred reweighting (DRW).

An option of every method rather than a method: Cao et al. 2019 defer the weights until
the learning rate falls, and HAR-DRW of Cao et al. 2021 is HAR with them.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from har_jax.methods.shared.single_network import LossWeights


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
    counts = np.asarray(counts)
    if not 0 <= beta < 1:
        raise ValueError(f"beta={beta} must be in [0, 1)")
    if np.any(counts < 0) or not np.any(counts):
        raise ValueError(f"counts must not be negative, and not all 0; got {counts.tolist()}")
    present = counts > 0
    weights = np.where(present, (1 - beta) / (1 - beta ** np.maximum(counts, 1)), 0.0)
    return weights / weights[present].mean()


def deferred_weights(weights: Float[np.ndarray, " K"], start_step: int) -> LossWeights:
    """Weighs every example by its class from ``start_step`` on, and by 1 before."""
    table = np.asarray(weights, np.float32)

    def loss_weights(labels, step):
        by_class = jnp.asarray(table)[labels]
        return jnp.where(step >= start_step, by_class, jnp.ones_like(by_class))

    return loss_weights
