"""Per-example losses."""

import optax
from jaxtyping import Array, Float, Int

from har_jax.precision import at_least_float32


def cross_entropy(logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
    """The cross-entropy of softmax probabilities, in nats.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      labels: ``[B]``, integers in ``[0, K)``. Under ``jit`` their range cannot be checked:
        the data sources of this library check it when they load.

    Returns:
      ``[B]`` losses.
    """
    wide = logits.astype(at_least_float32(logits.dtype))
    return optax.softmax_cross_entropy_with_integer_labels(wide, labels)
