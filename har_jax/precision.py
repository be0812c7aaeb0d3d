"""Widths that sums are taken in."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike


def at_least_float32(dtype: DTypeLike) -> jnp.dtype:
    """The dtype, or float32 in place of one that is narrower or holds no fractions.

    Also where JAX is told to promote strictly, which refuses to compare widths.
    """
    with jax.numpy_dtype_promotion("standard"):
        return jnp.promote_types(dtype, jnp.float32)
