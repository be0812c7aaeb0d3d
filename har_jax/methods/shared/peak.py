"""The example of a batch whose R stands out most.

R is large where a label is improbable, which is as it should be, and where the network is steep.
The second is what can throw a whole run over, as an input does on which a norm divides by nearly
nothing. With a cross-entropy :math:`\\ell`, the gradient for the logits has a norm between
:math:`1 - e^{-\\ell}` and :math:`\\sqrt 2` times that, so that :math:`R / (1 - e^{-\\ell})` is how
steep the network is at an example. It is compared with the median over those examples of the batch
that the network does not fit: of others nothing but rounding is left, and, where BatchNorm makes
examples depend on each other, what comes from others.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

_FITTED = 0.05  # 1 - p of a label that a network fits
_FEW = 3  # examples that it does not: so few say nothing of what is usual


class Rows(NamedTuple):
    """What is known of each row of a batch.

    Attributes:
      norm: R, of the loss as it is here, unweighted.
      loss: Cross-entropies, in nats.
      example: Which one of the training set; exact below 2^24, since it is added up as a float.
    """

    norm: Float[Array, "... b"]
    loss: Float[Array, "... b"]
    example: Float[Array, "... b"]


class Peak(NamedTuple):
    """An example.

    Attributes:
      ratio: How many times the medians of the batch R is, and the network steep: the lesser of
        the two.
      norm: R.
      median: Of R in the batch.
      example: Which one of the training set.
    """

    ratio: Float[Array, ""]
    norm: Float[Array, ""]
    median: Float[Array, ""]
    example: Float[Array, ""]


def rows_of(norm: Float[Array, " b"], loss: Float[Array, " b"], example: Int[Array, " b"]) -> Rows:
    """The rows of a part of a batch, in float32."""
    wide = lambda values: jax.lax.stop_gradient(values).astype(jnp.float32)
    return Rows(wide(norm), wide(loss), wide(example))


def with_peaks(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics with the peak of a batch in place of its rows."""
    return {
        name: _peak_of(value) if isinstance(value, Rows) else value
        for name, value in metrics.items()
    }


def split(metrics: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Peak]]:
    """The metrics that add up, and the peaks."""
    peaks = {name: value for name, value in metrics.items() if isinstance(value, Peak)}
    return {name: value for name, value in metrics.items() if name not in peaks}, peaks


def higher(one: Mapping[str, Peak], other: Mapping[str, Peak]) -> dict[str, Peak]:
    """Of each peak the higher one."""
    choose = lambda a, b: jax.tree.map(lambda x, y: jnp.where(a.ratio >= b.ratio, x, y), a, b)
    return {name: choose(peak, other[name]) for name, peak in one.items()}


def _peak_of(rows: Rows) -> Peak:
    norm, loss, example = (values.reshape(-1) for values in rows)
    missed = -jnp.expm1(-loss)
    usual = missed > _FITTED
    steep = norm / jnp.maximum(missed, _FITTED)
    middle = jnp.nanmedian(jnp.where(usual, steep, jnp.nan))
    known = (jnp.sum(usual) >= _FEW) & (middle > 0)
    middle = jnp.where(known, middle, 1.0)
    usual_norm = jnp.median(norm)
    ratio = jnp.minimum(norm / jnp.where(usual_norm > 0, usual_norm, 1.0), steep / middle)
    ratio = jnp.where(known & (usual_norm > 0), ratio, 0.0)
    at = jnp.argmax(ratio)
    return Peak(ratio[at], norm[at], usual_norm, example[at])
