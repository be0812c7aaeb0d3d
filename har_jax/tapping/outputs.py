"""Marks on all that a call returns."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from har_jax.tapping.marks import TapError, mark


def mark_output(output: Any, name: str) -> Any:
    """Marks every floating array that a call returns, one that is in it twice only once.

    Args:
      output: A tree.
      name: Of the marks.

    Raises:
      TapError: if there is no floating array in it.
    """
    marked: dict[int, jax.Array] = {}

    def visit(leaf: Any) -> Any:
        if not (
            isinstance(leaf, (jax.Array, np.ndarray)) and jnp.issubdtype(leaf.dtype, np.inexact)
        ):
            return leaf
        if id(leaf) not in marked:
            marked[id(leaf)] = mark(jnp.asarray(leaf), name)
        return marked[id(leaf)]

    result = jax.tree.map(visit, output)
    if not marked:
        raise TapError(f"{name} is selected but returns no floating array")
    return result
