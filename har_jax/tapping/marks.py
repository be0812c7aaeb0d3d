"""Marks: a primitive that returns what it is given."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.extend.core import get_opaque_trace_state
from jax.interpreters import ad, batching
from jaxtyping import Array

from har_jax.jaxprs import equations


class TapError(ValueError):
    """The selected layers cannot be tapped: the message names them and the remedy."""


class Kind(NamedTuple):
    """Whose marks they are, and how messages speak of them.

    Attributes:
      subject: A format, of the mark's name.
      remedy: What to do about a mark that cannot be served.
    """

    subject: str
    remedy: str


LAYERS = Kind("{}", "leave it out of `layers`")


def mark(x: Array, name: str, *, kind: Kind = LAYERS, axis: int | str | None = None) -> Array:
    """Marks an activation of a program that :func:`trace` traces; returns it.

    Where marks of another kind are traced, or none, it does nothing.
    """
    now = marking_now.get()
    if now is None or now.kind is not kind:
        return x
    if isinstance(now, Adding):
        return x + next(now.zeros)
    now.marked += 1
    options = {"name": name, "axis": axis, "mapped": (), "differentiated": False}
    return MARK.bind(x, **options, within=within())


context_of_marks = jax.make_user_context()


# Of a mark: its name; the axis that it was given; the names of the axes that vmaps have added, from
# the outermost; whether the program takes a gradient through it; whether it stands within what a
# transformation, such as a loop's, traces by itself.
MARK = core.Primitive("har_jax_mark")
MARK.def_abstract_eval(lambda x, **_: x)


@MARK.def_impl
def _compute_now(_: Array, name: str, **__: Any) -> Array:
    subject, remedy = kind_now()
    raise TapError(
        f"{subject.format(name)} is computed while the model is traced, as under "
        f"jax.ensure_compile_time_eval, and would be missing from R: drop that, or {remedy}"
    )


def _differentiate(primals: Sequence[Array], tangents: Sequence[Array], **options: Any):
    options = {**options, "differentiated": True, "within": within()}
    return MARK.bind(*primals, **options), *tangents


def _map(axis_of_map: Any, arrays: Sequence[Array], axes: Sequence[int | None], **options: Any):
    """Maps a mark, also one of what is the same for all: it runs as often as everything there.

    But of what has a tangent: in ``jax.jacfwd``, which maps tangents, values are the same for all.
    """
    (array,), (axis,) = arrays, axes
    if axis is None and options["differentiated"]:
        return MARK.bind(array, **{**options, "within": within()}), None
    if axis is None:
        rows = jnp.broadcast_to(array, (axis_of_map.size, *array.shape))
    else:
        rows = jnp.moveaxis(array, axis, 0)
    name = axis_of_map.name if isinstance(axis_of_map.name, str) else None
    options = {**options, "mapped": (name, *options["mapped"]), "within": within()}
    return MARK.bind(rows, **options), 0


ad.primitive_jvps[MARK] = _differentiate
batching.fancy_primitive_batchers[MARK] = _map


@dataclasses.dataclass
class Tracing:
    """What is known while a program is traced.

    Attributes:
      kind: Of the marks that are traced.
      outermost: The state of JAX's tracing in its outermost code.
      marked: How often :func:`mark` was called.
    """

    kind: Kind
    outermost: Any = None
    marked: int = 0


class Adding(NamedTuple):
    """What is added where the outermost code of a program calls :func:`mark`, in order."""

    kind: Kind
    zeros: Iterator[Array]


marking_now: contextvars.ContextVar[Tracing | Adding | None] = contextvars.ContextVar(
    "marking", default=None
)


def kind_now() -> Kind:
    now = marking_now.get()
    return now.kind if now else LAYERS


@contextlib.contextmanager
def setting(variable: contextvars.ContextVar, value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def within() -> bool:
    now = marking_now.get()
    at = now.outermost if isinstance(now, Tracing) else None
    return get_opaque_trace_state(convention="flax") != at


def name_in(equation: core.JaxprEqn) -> str | None:
    """The name of the first mark inside of an equation; None where there is none."""
    bodies = core.jaxprs_in_params(equation.params)
    inner = (each for body in bodies for each in equations(body))
    return next((each.params["name"] for each in inner if each.primitive is MARK), None)
