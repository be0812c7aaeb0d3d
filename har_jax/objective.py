r"""The regularized objective, as a weighted sum and its normalizer.

.. math::

    L = \frac{\sum_i (w_i \ell_i + \lambda \tau_i R_i)}{\sum_i w_i}

with :math:`R_i` taken of :math:`w_i \ell_i`, as the authors' weighted cross-entropy does;
with :math:`w_i = 1` it is the objective of section 2.3 of Cao et al. 2021. Sums and normalizers
of several devices or batches add up, so that neither their number nor a ragged last
batch can change a mean. They are taken in float32 at least.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from har_jax.precision import at_least_float32


class WeightedSum(NamedTuple):
    """A sum and what it is to be divided by.

    Attributes:
      total: The sum of weighted values.
      weight: The sum of the weights.
    """

    total: Float[Array, ""]
    weight: Float[Array, ""]

    def mean(self) -> Float[Array, ""]:
        """The weighted mean; 0 of nothing."""
        return self.total / jnp.where(self.weight == 0, 1, self.weight)


def weighted_sum(
    values: Float[Array, " B"], weights: Float[Array, " B"] | None = None
) -> WeightedSum:
    """Sums ``values * weights``; the weights are ones where they are not given.

    Raises:
      ValueError: if the shapes differ.
    """
    if weights is None:
        weights = jnp.ones_like(values)
    _same_shape(values=values, weights=weights)
    return WeightedSum(_sum(values * weights), _sum(weights))


def regularized_sum(
    loss: Float[Array, " B"],
    norm: Float[Array, " B"],
    strength: Float[Array, " B"] | float,
    weights: Float[Array, " B"] | None = None,
) -> WeightedSum:
    r"""Computes :math:`\sum_i (w_i \ell_i + \lambda\tau_i R_i)` and :math:`\sum_i w_i`.

    Args:
      loss: ``[B]``, :math:`w_i \ell_i`: the losses as weighted.
      norm: ``[B]``, :math:`R_i` of these weighted losses.
      strength: ``[B]``, :math:`\lambda\tau_i`, or one number for all.
      weights: ``[B]``, :math:`w_i`, ones where they are not given. They are the normalizer, and
        multiply nothing here. With 0 for a row, its loss is 0 already, and so is its norm where
        examples do not depend on each other; with BatchNorm in training a masked row has a norm,
        since it takes part in the statistics that the losses of others depend on: give it strength
        0 too where it is not to count.

    Returns:
      The :class:`WeightedSum`; its mean is the objective.

    Raises:
      ValueError: if the shapes differ.

    Example:
      >>> one = jnp.ones(2)
      >>> float(regularized_sum(loss=one, norm=2 * one, strength=0.5 * one).mean())
      2.0
    """
    if weights is None:
        weights = jnp.ones_like(loss)
    strengths = jnp.asarray(strength)
    if strengths.ndim == 0:
        strengths = strengths * jnp.ones_like(norm)
    _same_shape(loss=loss, norm=norm, strength=strengths, weights=weights)
    return WeightedSum(_sum(loss + strengths * norm), _sum(weights))


def _sum(values: Float[Array, " B"]) -> Float[Array, ""]:
    return jnp.sum(values.astype(at_least_float32(values.dtype)))


def _same_shape(**arrays: Array) -> None:
    if len({array.shape for array in arrays.values()}) > 1:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise ValueError(f"one number per example is needed, all of one shape; got {shapes}")
