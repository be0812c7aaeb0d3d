"""A batch in parts, one after the other, whose sums add up to the batch's: for lack of memory."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

Carry = TypeVar("Carry")
Rows = TypeVar("Rows")
Sums = TypeVar("Sums")


def accumulate(
    fun: Callable[[Carry, Rows, Int[Array, ""]], tuple[Carry, Sums]],
    carry: Carry,
    rows: Rows,
    parts: int,
) -> tuple[Carry, Sums]:
    """Adds up what a function returns for equal parts of a batch.

    Args:
      fun: ``(carry, rows, index) -> (carry, sums)``, called for one part after the other.
      carry: What the first part is given, of the shapes that ``fun`` returns.
      rows: A tree of arrays ``[B, ...]``.
      parts: How many; with 1, ``fun`` is simply called.

    Returns:
      The last part's carry, and the sums over all parts.

    Raises:
      ValueError: if B is not a multiple of ``parts``.
    """
    if parts == 1:
        return fun(carry, rows, jnp.zeros((), jnp.int32))
    size = len(jax.tree.leaves(rows)[0])
    if parts < 1 or size % parts:
        raise ValueError(f"a batch of {size} does not fall into {parts} equal microbatches")
    stacked = jax.tree.map(lambda x: x.reshape(parts, size // parts, *x.shape[1:]), rows)

    def body(
        state: tuple[Carry, Sums], part: tuple[Rows, Array]
    ) -> tuple[tuple[Carry, Sums], None]:
        carry, sums = state
        carry, more = fun(carry, *part)
        return (carry, jax.tree.map(jnp.add, sums, more)), None

    first = jax.tree.map(lambda x: x[0], stacked)
    _, shapes = jax.eval_shape(fun, carry, first, jnp.zeros((), jnp.int32))
    zeros: PyTree = jax.tree.map(jnp.zeros_like, shapes)
    state, _ = jax.lax.scan(body, (carry, zeros), (stacked, jnp.arange(parts)))
    return state
