"""Which of a model's inputs carry the batch, and on which axis: as ``jax.vmap`` says it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

# Keyword arguments of Flax's `apply` that are no inputs of the model.
_APPLY_OPTIONS = frozenset({"rngs", "method", "mutable", "capture_intermediates"})


def batch_size(args: Sequence[Any], kwargs: Mapping[str, Any], in_axes: Any) -> int | None:
    """The size of the batch; None if no input carries one.

    Raises:
      ValueError: if the inputs do not agree, or do not have the axes.
    """
    sizes: set[int] = set()
    _map_batched(lambda array, axis: sizes.add(array.shape[axis]), args, kwargs, in_axes)
    if len(sizes) > 1:
        raise ValueError(
            f"the model's inputs hold batches of different sizes, {sorted(sizes)}: say with "
            "`in_axes`, as in jax.vmap, which positional arguments carry the batch and on which "
            "axis (None for a table or an old-style PRNG key); a keyword array without a batch "
            "axis has to be passed by position, or in a function around `apply`"
        )
    return sizes.pop() if sizes else None


def repeat(args: Sequence[Any], kwargs: Mapping[str, Any], in_axes: Any):
    """The inputs with every example twice."""
    return _map_batched(
        lambda array, axis: jnp.concatenate([array, array], axis), args, kwargs, in_axes
    )


def _map_batched(
    fun: Callable[[Any, int], Any], args: Sequence[Any], kwargs: Mapping[str, Any], in_axes: Any
) -> tuple[tuple, dict[str, Any]]:
    """Applies ``fun(array, batch_axis)`` to every input that carries the batch."""
    if not isinstance(in_axes, (tuple, list)):
        in_axes = (in_axes,) * len(args)
    if len(in_axes) != len(args):
        raise ValueError(f"in_axes has {len(in_axes)} entries for {len(args)} arguments")

    def visit(axis: int | None, tree: PyTree) -> PyTree:
        def leaf(value):
            array = isinstance(value, (jax.Array, np.ndarray)) and value.ndim > 0
            return fun(value, axis) if array and axis is not None else value

        return jax.tree.map(leaf, tree)

    mapped = jax.tree.map(visit, tuple(in_axes), tuple(args), is_leaf=lambda axis: axis is None)
    return mapped, {
        name: value if name in _APPLY_OPTIONS else visit(0, value) for name, value in kwargs.items()
    }
