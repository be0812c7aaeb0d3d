"""Marks: a primitive that returns what it is given."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.extend.core import get_opaque_trace_state
from jax.interpreters import ad, batching
from jaxtyping import Array

from har_jax.jaxprs import equations


class TapError(ValueError):
    """The selected layers cannot be tapped: the message names them and the remedy."""


def mark(x: Array, name: str) -> Array:
    """Marks an activation of a program that :func:`trace` traces; returns it."""
    if (zeros := adding_now.get()) is not None:
        return x + next(zeros)
    if (tracing := tracing_now.get()) is not None:
        tracing.marked += 1
    return MARK.bind(x, name=name, mapped=0, differentiated=False, within=within())


context_of_marks = jax.make_user_context()


# Of a mark: its name; how many axes vmaps have added; whether the program takes a gradient through
# it; whether it stands within what a transformation, such as a loop's, traces by itself.
MARK = core.Primitive("har_jax_mark")
MARK.def_abstract_eval(lambda x, **_: x)


@MARK.def_impl
def _compute_now(_: Array, name: str, **__: Any) -> Array:
    raise TapError(
        f"{name} is computed while the model is traced, as under jax.ensure_compile_time_eval, and "
        "would be missing from R: drop that, or leave it out of `layers`"
    )


def _differentiate(primals: Sequence[Array], tangents: Sequence[Array], **options: Any):
    options = {**options, "differentiated": True, "within": within()}
    return MARK.bind(*primals, **options), *tangents


def _map(axis_of_map: Any, arrays: Sequence[Array], axes: Sequence[int | None], **options: Any):
    """Maps a mark, also one of what is the same for all: it runs as often as everything there."""
    (array,), (axis,) = arrays, axes
    if axis is None:
        rows = jnp.broadcast_to(array, (axis_of_map.size, *array.shape))
    else:
        rows = jnp.moveaxis(array, axis, 0)
    options = {**options, "mapped": options["mapped"] + 1, "within": within()}
    return MARK.bind(rows, **options), 0


ad.primitive_jvps[MARK] = _differentiate
batching.fancy_primitive_batchers[MARK] = _map


@dataclasses.dataclass
class Tracing:
    """What is known while a program is traced.

    Attributes:
      outermost: The state of JAX's tracing in its outermost code.
      marked: How often :func:`mark` was called.
    """

    outermost: Any = None
    marked: int = 0


tracing_now: contextvars.ContextVar[Tracing | None] = contextvars.ContextVar(
    "tracing", default=None
)
adding_now: contextvars.ContextVar[Iterator[Array] | None] = contextvars.ContextVar(
    "adding", default=None
)


@contextlib.contextmanager
def setting(variable: contextvars.ContextVar, value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def within() -> bool:
    tracing = tracing_now.get()
    return tracing is None or get_opaque_trace_state(convention="flax") != tracing.outermost


def name_in(equation: core.JaxprEqn) -> str | None:
    """The name of the first mark inside of an equation; None where there is none."""
    bodies = core.jaxprs_in_params(equation.params)
    inner = (each for body in bodies for each in equations(body))
    return next((each.params["name"] for each in inner if each.primitive is MARK), None)
