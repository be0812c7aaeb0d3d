"""A batch in parts, one after the other, whose sums add up to the batch's: for lack of memory."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from har_jax.precision import at_least_float32

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
      The last part's carry, and the sums over all parts, of which those of fractions are
      added up in float32 at least.

    Raises:
      ValueError: if an array has another number of rows, B is not a multiple of ``parts``, or the
        carry does not keep its shapes and types.
    """
    if parts == 1:
        return fun(carry, rows, jnp.zeros((), jnp.int32))
    _check_rows(rows, parts)

    # A part takes every so many-th row, so that rows split over devices stay where they are.
    split = lambda x: x.reshape(len(x) // parts, parts, *x.shape[1:]).swapaxes(0, 1)
    stacked = jax.tree.map(split, rows)
    first = jax.tree.map(lambda x: x[: len(x) // parts], rows)
    changed, shapes = jax.eval_shape(fun, carry, first, jnp.zeros((), jnp.int32))
    _check_carry(carry, changed)

    def body(
        state: tuple[Carry, Sums], part: tuple[Rows, Array]
    ) -> tuple[tuple[Carry, Sums], None]:
        carry, sums = state
        carry, more = fun(carry, *part)
        return (carry, jax.tree.map(jnp.add, sums, more)), None

    zeros: PyTree = jax.tree.map(_wide_zeros, shapes)
    (carry, sums), _ = jax.lax.scan(body, (carry, zeros), (stacked, jnp.arange(parts)))
    return carry, jax.tree.map(lambda x, shape: x.astype(shape.dtype), sums, shapes)


def _wide_zeros(like: jax.ShapeDtypeStruct) -> Array:
    counts = jnp.issubdtype(like.dtype, jnp.integer)
    # zeros_like varies along the mesh axes that the sums vary along.
    return jnp.zeros_like(like, like.dtype if counts else at_least_float32(like.dtype))


def _check_rows(rows: PyTree, parts: int) -> None:
    sizes = {
        jax.tree_util.keystr(path): leaf.shape[0] if getattr(leaf, "shape", ()) else None
        for path, leaf in jax.tree.leaves_with_path(rows)
    }
    size = next(iter(sizes.values()))
    if size is None or len(set(sizes.values())) > 1:
        found = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ValueError(
            f"microbatches are of rows, of which the batch's arrays have different numbers: {found}"
        )
    if parts < 1 or size % parts:
        raise ValueError(f"a batch of {size} does not fall into {parts} equal microbatches")


def _check_carry(before: PyTree, after: PyTree) -> None:
    described = [
        {jax.tree_util.keystr(path): str(jax.typeof(leaf)) for path, leaf in leaves}
        for leaves in map(jax.tree.leaves_with_path, (before, after))
    ]
    for name in {**described[0], **described[1]}:
        old, new = (each.get(name, "nothing") for each in described)
        if old != new:
            raise ValueError(
                f"microbatches need the network's variables to keep their types, and {name} is "
                f"{old} before a part and {new} after it"
            )
