"""A batch whose rows are split over a mapped axis, as devices of ``shard_map`` or ``pmap`` are."""

from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from har_jax.objective import WeightedSum

Tree = TypeVar("Tree")
Sums = TypeVar("Sums")
Means = TypeVar("Means")


def keys_of_rows(key: PRNGKeyArray, rows: int, axis: str | None) -> PRNGKeyArray:
    """A key of its own for each row, ``[rows]``, whatever part of the batch is where.

    Args:
      key: Of the batch.
      rows: How many rows are here.
      axis: The name of the axis; None where the whole batch is here.
    """
    if axis is None:
        return jax.random.split(key, rows)
    keys = jax.random.split(key, rows * jax.lax.axis_size(axis))
    return jax.lax.dynamic_slice_in_dim(keys, jax.lax.axis_index(axis) * rows, rows)


def place_of(axis: str | None) -> tuple[Array | int, int]:
    """Which place of the axis this is, and how many there are."""
    return (0, 1) if axis is None else (jax.lax.axis_index(axis), jax.lax.axis_size(axis))


def fold_in_place(key: PRNGKeyArray, axis: str | None) -> PRNGKeyArray:
    """A key that is another in each place of the axis."""
    return key if axis is None else jax.random.fold_in(key, jax.lax.axis_index(axis))


def ranks(values: Float[Array, " b"], axis: str | None) -> Int[Array, " b"]:
    """How many values of the whole batch are smaller than each, or equal and before it."""
    place, _ = place_of(axis)
    order = jnp.argsort(jnp.argsort(whole(values, axis))).astype(jnp.int32)
    return jax.lax.dynamic_slice_in_dim(order, place * len(values), len(values))


def whole(values: Float[Array, " b"], axis: str | None) -> Float[Array, " B"]:
    """The values of the whole batch, in order."""
    return values if axis is None else jax.lax.all_gather(values, axis, tiled=True)


def summed(value: Tree, axis: str | None) -> Tree:
    """The sum over the axis."""
    return value if axis is None else jax.lax.psum(value, axis)


def whole_batch(name: str, options: Mapping[str, Any]) -> str | None:
    """The axis that batches are split over, of a method whose loss is one of the whole batch.

    Raises:
      ValueError: if that is to be gone through in parts, each of which has another such loss.
    """
    if (parts := options.get("microbatches") or 1) > 1:
        raise ValueError(f"{name}: a batch's loss cannot be cut into microbatches={parts}: take 1")
    axis: str | None = options.get("axis")
    return axis


def refuse_split(batch: PyTree, params: PyTree) -> None:
    """Raises ``ValueError`` if a batch is split over an axis that parameters are the same on.

    A step that did not know of the axis would divide the sum of all gradients by its own rows.
    """
    split, own = (
        frozenset().union(*map(_varying, jax.tree.leaves(tree))) for tree in (batch, params)
    )
    if names := sorted(split - own):
        raise ValueError(
            f"the batch is split over {', '.join(map(repr, names))}, which this method does not "
            f"know of: make it with axis={names[0]!r}"
        )


def _varying(array: Array) -> frozenset[str]:
    """Along which mapped axes an array differs, as far as JAX keeps account of it."""
    account = getattr(jax.typeof(array), "manual_axis_type", None)
    return frozenset(account.varying) if account else frozenset()


def own_copy(tree: Tree, axis: str | None) -> Tree:
    """What is the same everywhere as something of each place, whose gradient is of its rows.

    Without it ``jax.shard_map`` adds the gradients of every array up on its own.
    """
    if axis is None:
        return tree
    return jax.tree.map(lambda leaf: jax.lax.pcast(leaf, axis, to="varying"), tree)


def in_slot(metrics: Mapping[str, Any], slot: Array | int, slots: int) -> dict[str, Any]:
    """Metrics whose rows, which do not add up, are put where nobody else puts theirs.

    So the sum over the parts of a batch, and over devices, holds them all, ``[slots, b, ...]``.
    """
    put = lambda rows: jnp.zeros((slots, *rows.shape), rows.dtype).at[slot].set(rows)
    return {
        name: value if isinstance(value, WeightedSum) else jax.tree.map(put, value)
        for name, value in metrics.items()
    }


def combine(sums: Sums, means: Means, axis: str | None) -> tuple[Sums, Means]:
    """Adds sums up over the axis and averages means, all in one all-reduce."""
    if axis is None:
        return sums, means
    sums, totals = jax.lax.psum((sums, means), axis)
    size = jax.lax.axis_size(axis)
    return sums, jax.tree.map(lambda x: (x / size).astype(x.dtype), totals)
