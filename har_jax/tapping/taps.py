"""A mark that anybody may put into any JAX code."""

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from har_jax.tapping.marks import Kind, TapError, mark

TAPS = Kind("the tap {!r}", "take the tap out")


def tap(x: Array, name: str | None = None, *, axis: int | str | None = 0) -> Array:
    """Marks an activation for :func:`har_jax.loss_and_tap_norm`; returns it.

    Everywhere else it is the identity, under all transformations of JAX, and leaves nothing in the
    program: the bits are the same, and so is what is compiled. Code that is marked needs no switch
    for training, evaluation and other regularizers; the norms of a Flax Linen model
    (:func:`har_jax.loss_and_jacobian_norm`) do not see it either.

    Args:
      x: The activation: one array, floating or complex, of any shape. Go on with what is returned.
      name: What ``layer_norms`` calls it, ``"tap"`` by default; several may have one name.
      axis: Where the examples lie, as the code here sees the array. None inside of a ``jax.vmap``
        over the examples: that one's axis is theirs. Where several are around it that have as many
        rows as there are examples, the ``axis_name`` of the one that is over them.

    Raises:
      TypeError: if ``x`` is no floating array, or the name no text.
      TapError: if ``x`` has no such axis.
    """
    name = "tap" if name is None else name
    if not isinstance(name, str):
        raise TypeError(f"the name of a tap is text; it is {name!r}")
    if not isinstance(x, (jax.Array, np.ndarray)) or not jnp.issubdtype(x.dtype, np.inexact):
        raise TypeError(
            f"{_subject(name)} takes one floating array, and is given {_found(x)}: tap the arrays "
            "of a tree one by one, and what has a gradient"
        )
    if axis is not None and not isinstance(axis, str):
        axis = operator.index(axis)
        if not -x.ndim <= axis < x.ndim:
            raise TapError(
                f"{_subject(name)} has axis={axis} and an array of shape {list(x.shape)}: say "
                "where the examples lie, and inside of a jax.vmap over them axis=None"
            )
    return mark(x, name, kind=TAPS, axis=axis)


def _subject(name: str) -> str:
    return TAPS.subject.format(name)


def _found(x: Any) -> str:
    if isinstance(x, (jax.Array, np.ndarray)):
        return f"{x.dtype}{list(x.shape)}"
    return f"a {type(x).__name__}"
