"""The taps of an NNX model: runs of the calls of its modules that a filter selects."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from flax import nnx

from har_jax import tapping
from har_jax.axes import InAxes, Inputs, TapAxes, axes_of
from har_jax.jacobian import Axes
from har_jax.nnx.calls import collecting_calls, mark_calls
from har_jax.nnx.layers import Filter, selected_layers
from har_jax.nnx.state import Before, refuse_references
from har_jax.tapping import Program, TapError, refuse_uncalled

_CONTEXT = "har_jax.nnx"  # a module says itself how its calls are marked


class _Place:
    """Where one of several NNX objects stands among the arguments of a call."""

    def __init__(self, index: int) -> None:
        self.index = index


def find_taps(
    model: nnx.Module,
    layers: Filter,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    in_axes: InAxes = 0,
    tap_axes: TapAxes = None,
) -> tuple[Program, list[Axes], Any]:
    """Finds the tapped activations, their shapes and their axes, without computing any.

    The model is traced at the batch size of its inputs; :func:`har_jax.axes.axes_of` says when
    at others too. A copy of it is, which is thrown away.

    Args:
      model: An NNX module.
      layers: A filter ``(path, module) -> bool``.
      args: The model's positional arguments, trees of arrays and NNX objects, such as Rngs.
      kwargs: The model's keyword arguments, alike.
      in_axes: See :data:`har_jax.axes.InAxes`. NNX objects carry no batch.
      tap_axes: The batch axis of the taps, as :func:`har_jax.axes.axes_of` takes it.

    Returns:
      The model's trace, which returns the outputs and what the call changes in NNX objects, for
      :func:`har_jax.nnx.state.update`; the axes of its taps; and these objects.

    Raises:
      TapError: if nothing is selected, if a selected module is not called or out of reach, if a
        tap has no batch axis, or if a call may change what cannot leave a trace.
      ValueError: if the inputs do not agree on the batch size.
    """
    names = selected_layers(model, layers)
    objects: list[Any] = [model]
    args, kwargs = _without_objects((tuple(args), dict(kwargs)), objects)
    refuse_references(tuple(objects))
    inputs = Inputs(args, kwargs, in_axes)
    if tap_axes is None:
        inputs.batch_size()
    description, state = nnx.split(tuple(objects))

    def trace(args: tuple, kwargs: dict[str, Any]) -> Program:
        def run() -> tuple[Any, dict]:
            copies = nnx.merge(description, state, copy=True)
            mark_calls(copies[0], names)
            before = Before(copies)
            given_args, given_kwargs = _with_objects((args, kwargs), copies)
            outputs = copies[0](*given_args, **given_kwargs)
            return outputs, before.changes()

        return tapping.trace(run, context=_CONTEXT)

    with collecting_calls() as called:
        program = trace(inputs.args, inputs.kwargs)
    refuse_uncalled(set(names.values()) - called, [tap.name for tap in program.taps])
    if not program.taps:
        raise TapError(
            f"the model's outputs do not depend on {', '.join(names.values())}, which the filter "
            "`layers` selects: R would be zero"
        )
    return program, axes_of(program, trace, inputs, tap_axes), tuple(objects)


def _without_objects(tree: Any, objects: list[Any]) -> Any:
    """A tree with places for the NNX objects in it, which are added to a list."""

    def place(leaf: Any) -> Any:
        if not _is_object(leaf):
            return leaf
        objects.append(leaf)
        return _Place(len(objects) - 1)

    return jax.tree.map(place, tree, is_leaf=_is_object)


def _with_objects(tree: Any, objects: Sequence[Any]) -> Any:
    find = lambda leaf: objects[leaf.index] if isinstance(leaf, _Place) else leaf
    return jax.tree.map(find, tree)


def _is_object(value: Any) -> bool:
    return isinstance(value, (nnx.Pytree, nnx.Variable))
