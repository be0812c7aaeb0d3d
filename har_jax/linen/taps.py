"""The taps of a Flax Linen model: runs of the calls of its methods that a filter selects."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from har_jax import tapping
from har_jax.axes import InAxes, Inputs, TapAxes, axes_of
from har_jax.jacobian import Axes
from har_jax.linen.calls import marking
from har_jax.linen.layers import Filter, normalization_layers
from har_jax.tapping import Program, TapError, refuse_uncalled

_JITTED = "core_fn"  # what Flax calls a function under nn.jit
# Keyword arguments of Flax's `apply` that are no inputs of the model.
_APPLY_OPTIONS = frozenset({"rngs", "method", "mutable", "capture_intermediates"})


def find_taps(
    apply: Callable[..., Any],
    layers: Filter,
    variables: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    in_axes: InAxes = 0,
    tap_axes: TapAxes = None,
) -> tuple[Program, list[Axes]]:
    """Finds the tapped activations, their shapes and their axes, without computing any.

    The model is traced at the batch size of its inputs; :func:`har_jax.axes.axes_of` says when
    at others too.

    Args:
      apply: ``flax.linen.Module.apply`` of the model, or a function around it.
      layers: A filter ``(module, method_name) -> bool``.
      variables: The model's variables.
      args: The model's positional arguments.
      kwargs: The model's keyword arguments, and those of ``apply``.
      in_axes: See :data:`har_jax.axes.InAxes`.
      tap_axes: The batch axis of the taps, where it is not to be found: one for all, or by module
        path (``{"encoder/norm": 1}``), counted as :class:`har_jax.tapping.Tap` has the axes.

    Returns:
      The model's trace, which returns the outputs and the collections that were mutated, and the
      axes of its taps.

    Raises:
      TapError: if nothing is selected, if a selected layer is out of reach, or if a tap
        has no batch axis.
      ValueError: if the inputs do not agree on the batch size.
    """
    if isinstance(layers, type) or not callable(layers):
        raise ValueError(f"layers={layers!r} is not a filter (module, method_name) -> bool")
    inputs = Inputs(args, kwargs, in_axes, _APPLY_OPTIONS)
    uncalled: set[str] = set()
    trace = functools.partial(_trace, apply, layers, variables, uncalled)
    if tap_axes is None:
        inputs.batch_size()
    program = trace(inputs.args, inputs.kwargs)
    refuse_uncalled(uncalled, [tap.name for tap in program.taps])
    if _JITTED in program.shared and layers is not normalization_layers:
        raise TapError(
            "several modules of one class are under nn.jit, which traces them once, so that "
            "`layers` is asked of the first one only, whatever the others are called: drop nn.jit "
            "and jit the whole step, or take har_jax.normalization_layers, which goes by class"
        )
    if not program.taps:
        raise TapError(
            "the filter `layers` selects no call of the model: R would be zero. "
            "Give one that does, such as `lambda module, method: isinstance(module, nn.Dense)`"
        )
    return program, axes_of(program, trace, inputs, tap_axes)


def _trace(
    apply: Callable[..., Any],
    layers: Filter,
    variables: Mapping[str, Any],
    uncalled: set[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Program:
    mutable = kwargs.get("mutable", False)

    def run():
        with marking(layers) as asked:
            result = apply(variables, *args, **kwargs)
        uncalled.update(asked.uncalled)
        if mutable is False:
            return result, {}
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping):
            return result
        raise TypeError(
            f"`apply` is called with mutable={mutable!r} and does not return (outputs, mutated "
            "variables): a function around it has to pass `mutable` on"
        )

    return tapping.trace(run, context=_context_of(layers))


def _context_of(layers: Filter) -> Any:
    """What other calls are marked for, in place of a filter that cannot be a key."""
    try:
        hash(layers)
    except TypeError:
        return object()
    return layers
