"""What a call changes in NNX objects, brought out of the trace that it is called in."""

import operator
from typing import Any

import jax
import numpy as np
from flax import nnx

from har_jax.nnx.layers import Path
from har_jax.tapping import TapError

Changes = dict[Path, Any]
"""New values by path: of Variables, Variables with them; of arrays that are attributes, arrays."""


class Before:
    """NNX objects as they are before a call.

    Args:
      objects: A tree of them, which belongs to the trace that it is called in.
    """

    def __init__(self, objects: Any) -> None:
        self._objects = objects
        self._values, self._rest = _contents(objects)

    def changes(self) -> Changes:
        """What is different now.

        Raises:
          TapError: if that is anything but the values of Variables and arrays, or new Variables.
        """
        values, rest = _contents(self._objects)
        gone = self._values.keys() - values.keys()
        differing = {
            path
            for path in rest.keys() | self._rest.keys()
            if not (path in rest and path in self._rest and _equal(rest[path], self._rest[path]))
        }
        if other := sorted(gone | differing, key=str):
            raise TapError(
                f"a call of the model changes {_name(other[0])}, and not as the "
                "value of an nnx.Variable: keep it in one, such as nnx.Variable(jnp.array(0)), so "
                "that the change can leave the trace"
            )
        return {
            path: value
            for path, (value, held) in values.items()
            if path not in self._values or not _is_same(held, self._values[path][1])
        }


def refuse_references(objects: Any) -> None:
    """Refuses what a copy of a model would not bring back: references to mutable arrays.

    Raises:
      TapError: if there are any.
    """
    for path, value in nnx.iter_graph(objects):
        is_variable = isinstance(value, nnx.Variable)
        held = jax.tree.leaves(value.get_raw_value()) if is_variable else [value]
        refers = any(isinstance(leaf, jax.Ref) for leaf in held)
        if refers or (is_variable and value.get_metadata().get("hijax")):
            raise TapError(
                f"{_name(path)} refers to a mutable array (ref=True or hijax=True), whose changes "
                "cannot leave the trace: use plain Variables"
            )


def update(objects: Any, changes: Changes) -> None:
    """Changes NNX objects in place as a call of a copy changed it.

    Raises:
      flax.errors.TraceContextError: if they belong to another trace than the one it is called in.
    """
    if changes:
        nnx.update(objects, nnx.from_flat_state(changes))


def _contents(objects: Any) -> tuple[dict[Path, tuple[Any, Any]], dict[Path, Any]]:
    """By path: Variables and arrays, with what they hold; and all else."""
    values: dict[Path, tuple[Any, Any]] = {}
    rest: dict[Path, Any] = {}
    for path, value in nnx.iter_graph(objects):
        if any(str(part).startswith("_pytree__") for part in path):
            continue
        if isinstance(value, nnx.Variable):
            values[path] = value, jax.tree.flatten(value.get_raw_value())
        elif isinstance(value, (jax.Array, np.ndarray)):
            values[path] = value, jax.tree.flatten(value)
        else:
            rest[path] = value if jax.tree_util.all_leaves([value]) else type(value)
    return values, rest


def _is_same(one: Any, other: Any) -> bool:
    """Whether two flattened trees hold the very same arrays."""
    return one[1] == other[1] and all(map(operator.is_, one[0], other[0]))


def _equal(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


def _name(path: Path) -> str:
    return "/".join(map(str, path[1:]))  # without the number of the object
