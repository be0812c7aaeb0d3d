"""Per-example losses."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int


def cross_entropy(logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
    """The cross-entropy of softmax probabilities, in nats.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      labels: ``[B]``, integers in ``[0, K)``. Under ``jit`` their range cannot be checked:
        the data sources of this library check it when they load.

    Returns:
      ``[B]`` losses.
    """
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(wide, labels)
