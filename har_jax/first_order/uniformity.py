"""What is known of an array while it is traced: whether it is the same along an axis.

A cotangent is what an objective makes of it. Under ``jax.jit`` it has no value yet, but it has a
history: the gradient of a sum, or of a mean, is a number that is broadcast. What is told here is
certain; what cannot be told, such as an array that came in as an argument, is not known.
"""

from typing import Any

import jax
import numpy as np
from jax.extend import core

from har_jax.jaxprs import equations

# Entry by entry, from entries at the same place.
_ENTRYWISE = frozenset(
    ("add", "add_any", "convert_element_type", "copy", "div", "mul", "neg", "pcast", "pvary", "sub")
)
# The same at all places of the axes that they go over.
_REDUCTIONS = frozenset(("pmax", "pmin", "psum", "psum_invariant"))
# What brings nothing from one place of a mapped axis to another.
_LOCAL = frozenset(("axis_index", "pcast", "pvary"))


def known_equal(x: Any, across: tuple[str, ...] = ()) -> bool:
    """Whether all entries of ``x [B]`` are known to be the same.

    Args:
      x: An array.
      across: Mapped axes, at all places of which they have to be the same too.
    """
    pending = [(x, 0)]
    seen = set()
    while pending:
        value, axis = pending.pop()
        if (id(value), axis) in seen:
            continue
        seen.add((id(value), axis))
        if not isinstance(value, jax.core.Tracer):
            rows = np.moveaxis(np.asarray(value), axis, 0)
            if not np.all(rows == rows[:1]):
                return False
            continue
        mapped = getattr(value, "batch_dim", None)
        if mapped is not None:  # under jax.vmap: the array with the axis that is mapped
            shift = isinstance(mapped, int) and mapped <= axis
            pending.append((value.val, axis + shift))
            continue
        made_by = _origin(value)
        if made_by is None:
            return False
        name, inputs = made_by.primitive.name, made_by.in_tracers
        if name == "broadcast_in_dim":
            operand, places = inputs[0], made_by.params["broadcast_dimensions"]
            place = places.index(axis) if axis in places else None
            if place is None or operand.shape[place] == 1:
                if across and not _same(operand, across):
                    return False
            else:
                pending.append((operand, place))
        elif name in _ENTRYWISE:
            arrays = [each for each in inputs if each.shape]
            if any(each.shape != value.shape for each in arrays):
                return False
            if across and not all(_same(each, across) for each in inputs if not each.shape):
                return False
            pending.extend((each, axis) for each in arrays)
        else:
            return False
    return True


def _origin(tracer: Any) -> Any:
    """The equation that made a value of a program that is traced; None where there is none."""
    return getattr(tracer, "parent", None)


def _same(x: Any, across: tuple[str, ...]) -> bool:
    """Whether a number is known to be the same at all places of mapped axes.

    It is where it is made of numbers that stand in the program, and of sums over these axes.
    """
    pending, seen = [x], set()
    while pending:
        value = pending.pop()
        if id(value) in seen or not isinstance(value, jax.core.Tracer):
            continue
        seen.add(id(value))
        if isinstance(getattr(value, "val", None), core.Literal):
            continue
        made_by = _origin(value)
        if made_by is None or made_by.primitive.name == "axis_index":
            return False
        if made_by.primitive.name in _REDUCTIONS:
            grouped = made_by.params.get("axis_index_groups") is not None
            if not grouped and set(across) <= set(made_by.params["axes"]):
                continue
        pending.extend(made_by.in_tracers)
    return True


def axes_of_collectives(jaxpr: core.Jaxpr) -> tuple[str, ...]:
    """The mapped axes along which a program brings values together."""
    found: dict[str, None] = {}
    for equation in equations(jaxpr):
        if equation.primitive.name in _LOCAL:
            continue
        for key in ("axes", "axis_name"):
            names = equation.params.get(key, ())
            names = names if isinstance(names, tuple) else (names,)
            found |= dict.fromkeys(name for name in names if isinstance(name, str))
    return tuple(found)
