"""Losses in which an improbable label counts less."""

import dataclasses
from typing import Annotated

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from har_jax.losses.cross_entropy import cross_entropy
from har_jax.losses.loss import Loss
from har_jax.options import Option


def generalized_cross_entropy(
    logits: Float[Array, "B K"], labels: Int[Array, " B"], q: float
) -> Float[Array, " B"]:
    r"""Computes :math:`(1 - p_y^q) / q`, between cross-entropy and the mean absolute error.

    The smaller q is, the nearer to cross-entropy, which is its limit at 0; 1 is :math:`1 - p_y`,
    half of the absolute error. The larger q is, the less an improbable label counts: the loss of
    Zhang & Sabuncu 2018 (arXiv 1805.07836).

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      labels: ``[B]``, integers in ``[0, K)``.
      q: In ``(0, 1]``.

    Returns:
      ``[B]`` losses in ``[0, 1 / q]``.

    Raises:
      ValueError: if q is outside of its range.

    Example:
      >>> logits = jnp.log(jnp.array([[0.75, 0.25]]))
      >>> generalized_cross_entropy(logits, jnp.array([1]), q=1.0)
      Array([0.75], dtype=float32)
    """
    _check_q(q)
    # By exp(q log p): the derivative of p ** q is infinite where p is 0.
    return -jnp.expm1(-q * cross_entropy(logits, labels)) / q


def truncated_generalized_cross_entropy(
    logits: Float[Array, "B K"], labels: Int[Array, " B"], q: float, k: float
) -> Float[Array, " B"]:
    r"""Computes :func:`generalized_cross_entropy`, constant where :math:`p_y \le k`.

    Labels that improbable have no gradient: Zhang & Sabuncu 2018, whose training
    alternates between it and weights of the examples, which are 1 where :math:`p_y > k`.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      labels: ``[B]``, integers in ``[0, K)``.
      q: In ``(0, 1]``.
      k: The probability in ``[0, 1)`` up to which the loss is that of k.

    Returns:
      ``[B]`` losses in ``[0, (1 - k ** q) / q]``.

    Raises:
      ValueError: if q or k is outside of its range.
    """
    if not 0 <= k < 1:
        raise ValueError(f"k={k} must be in [0, 1)")
    return jnp.minimum(generalized_cross_entropy(logits, labels, q), (1 - k**q) / q)


@dataclasses.dataclass(frozen=True)
class GeneralizedCrossEntropy(Loss):
    """The generalized cross-entropy, for noise: :func:`generalized_cross_entropy`.

    Attributes:
      q: 0.7 is its authors'.
    """

    q: Annotated[float, Option("towards 0 cross-entropy, 1 the absolute error", gt=0, le=1)] = 0.7

    def __call__(self, logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
        return generalized_cross_entropy(logits, labels, self.q)


def _check_q(q: float) -> None:
    if not 0 < q <= 1:
        raise ValueError(f"q={q} must be in (0, 1]: towards 0 it is the cross-entropy")
