"""The taps of a Flax Linen model, and how zeros are added to them.

A *tap* is one call of one selected module method. What Flax's ``capture_intermediates``
captures under the filter is what is differentiated, and the zeros travel in the
collection ``intermediates`` as well, so that Flax's lifted transformations slice and
stack them as they do what is captured.

Every call that is traced sows a marker under a name of its own, and the markers that
arrive among the intermediates tell which calls ran. A call that ran and whose marker did
not arrive would be missing from R; it is refused, with the reason that is the likely one.
"""

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import traverse_util
from flax.core import scope as flax_scope
from jaxtyping import PyTree

from har_jax import inputs
from har_jax.calls import (
    CallKey,
    SelectedCalls,
    TapError,
    call_key,
    first_difference,
    is_call,
    method_of,
    module_name,
    unused_collection,
)
from har_jax.jacobian import Axes
from har_jax.layers import Filter

TapAxes = int | Mapping[str, int] | None


@dataclasses.dataclass(frozen=True)
class Taps:
    """The taps of a model on a batch, as :func:`find_taps` finds them.

    ``perturbations`` and ``axes`` are keyed by module path and call; each value is a list
    with one entry per floating array that the call returned.
    """

    layers: Filter
    perturbations: dict[CallKey, list[jax.Array]]
    axes: dict[CallKey, list[Axes]]
    traced: Mapping[CallKey, int]

    def apply(
        self,
        apply: Callable[..., Any],
        perturbations: PyTree,
        variables: Mapping[str, Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> tuple[Any, Mapping[str, Any]]:
        """Runs the model with ``perturbations`` added at the taps.

        Returns:
          The model's outputs, and the collections that it mutated.
        """

        def add(module: nn.Module, key: CallKey, output: Any) -> Any:
            if not perturbations.get(key):
                return output  # a trace that Flax throws away, or inside of a tapped call
            zeros: Any = module.get_variable("intermediates", key[-1])
            if zeros is None:
                raise TapError(
                    f"{module_name(key)} does not get its perturbation: a function around "
                    "`apply` has to pass on all of the variables, nn.scan and nn.vmap take "
                    "'intermediates' in and out"
                )
            rest: Iterator[jax.Array] = iter(zeros)
            return jax.tree.map(lambda leaf: leaf + next(rest) if _inexact(leaf) else leaf, output)

        selected = SelectedCalls(self.layers, add)
        given = {**variables, "intermediates": traverse_util.unflatten_dict(perturbations)}
        options = {**kwargs, "mutable": _also_mutable(kwargs, unused_collection())}
        with selected.intercepting():
            outputs, mutated = apply(given, *args, **options)
        if selected.traced != self.traced:
            raise TapError(
                f"{first_difference(selected.traced, self.traced)} was traced a different "
                "number of times than before, as under nn.jit, whose cache skips calls: drop "
                "nn.jit and jit the whole step"
            )
        return outputs, _without(perturbations, mutated)

    def by_name(self, values: Mapping[CallKey, Sequence[Any]]) -> dict[str, Any]:
        """Flattens per-tap values to ``{"path/to/module": value}``.

        Where a module has several taps, the names end in ``[0]``, ``[1]``, ....
        """
        grouped: dict[str, list[Any]] = collections.defaultdict(list)
        for key, per_output in values.items():
            grouped[module_name(key)].extend(per_output)
        return {
            name if len(group) == 1 else f"{name}[{index}]": value
            for name, group in grouped.items()
            for index, value in enumerate(group)
        }


def find_taps(
    apply: Callable[..., Any],
    layers: Filter,
    variables: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    in_axes: Any = 0,
    tap_axes: TapAxes = None,
) -> Taps:
    """Finds the tapped activations, their shapes and their axes, without computing any.

    The model is traced abstractly, at the batch size of its inputs and, where an axis
    has to be found, at twice that size.

    Args:
      apply: ``flax.linen.Module.apply`` of the model, or a function that passes all
        variables and keyword arguments on to it.
      layers: A filter ``(module, method_name) -> bool``.
      variables: The model's variables; earlier ``intermediates`` among them are dropped.
      args: The model's positional arguments.
      kwargs: The model's keyword arguments, and those of ``apply``.
      in_axes: Which axis of which positional argument carries the batch, as in
        ``jax.vmap``. Arrays of rank 0 carry none; keyword arrays carry it on axis 0.
      tap_axes: The batch axis of the taps, where it is not to be found: one for all,
        or by module path (``{"encoder/norm": 1}``).

    Returns:
      The :class:`Taps`, with zeros as perturbations.

    Raises:
      TapError: if nothing is selected, if a selected layer is out of reach, or if a tap
        has no batch axis.
      ValueError: if the inputs do not agree on the batch size.
    """
    if isinstance(layers, type) or not callable(layers):
        raise ValueError(f"layers={layers!r} is not a filter (module, method_name) -> bool")
    if kwargs.get("capture_intermediates") and kwargs.get("mutable", False) is False:
        raise ValueError("capture_intermediates needs mutable=['intermediates'] beside it")
    batch_size = inputs.batch_size(args, kwargs, in_axes)
    with _noted(
        "while tracing `apply` with `mutable` and `capture_intermediates` set, which it has to "
        "take; calls inside nn.cond and nn.switch cannot be tapped"
    ):
        captured, traced = _capture(apply, layers, variables, args, kwargs)
    if not captured:
        raise TapError(
            "the filter `layers` selects no call of the model: R would be zero. "
            "Give one that does, such as `lambda module, method: isinstance(module, nn.Dense)`"
        )
    stated = {key: _stated_axis(key, tap_axes, captured) for key in captured}
    twice = captured
    if None in stated.values():
        if batch_size is None:
            raise ValueError("no input carries the batch: correct `in_axes`, or state `tap_axes`")
        with _noted(
            f"while tracing `apply` at twice the batch, {2 * batch_size} rows, to find the batch "
            "axes of the taps: say with `in_axes` which inputs carry the batch, or state `tap_axes`"
        ):
            twice, _ = _capture(apply, layers, variables, *inputs.repeat(args, kwargs, in_axes))
    if twice.keys() != captured.keys():
        raise TapError(
            f"{first_difference(twice, captured)} is called at one batch size and not at twice "
            "it: state `tap_axes`, so that the model is traced at its own size only"
        )
    axes = {
        key: [
            _axes(key, stated[key], batch_size, one, two)
            for one, two in zip(captured[key], twice[key], strict=True)
        ]
        for key in captured
    }
    perturbations = {
        key: [jnp.zeros_like(tap.activation) for tap in taps] for key, taps in captured.items()
    }
    return Taps(layers, perturbations, axes, traced)


@dataclasses.dataclass(frozen=True)
class _Captured:
    """A captured array, and the axes along which lifted transformations stacked it."""

    activation: jax.ShapeDtypeStruct
    stacked: tuple[int, ...]


def _capture(apply, layers, variables, args, kwargs):
    """Traces the model: what it captures, by module path and call; and how often it traces."""

    def mark(module: nn.Module, key: CallKey, output: Any) -> Any:
        # All sizes are 0, so that the axes added by lifted transformations stand out.
        markers = [jnp.zeros((0,) * jnp.ndim(leaf)) for leaf in _arrays(output)]
        if not module.sow("intermediates", key[-1], markers):
            raise TapError(_out_of_reach(key))
        return output

    def run():
        with selected.intercepting():
            _, mutated = apply(variables, *args, **options)
        return mutated.get("intermediates", {})

    selected = SelectedCalls(layers, mark)
    variables = {name: value for name, value in variables.items() if name != "intermediates"}
    mutable = _also_mutable(kwargs, "intermediates", unused_collection())
    options = {**kwargs, "mutable": mutable, "capture_intermediates": layers}
    intermediates = traverse_util.flatten_dict(dict(jax.eval_shape(run)))
    captured = {}
    for (*path, method), traced in selected.traced.items():
        keys = [call_key(path, method, number) for number in range(traced)]
        ran = [key for key in keys if key in intermediates]
        outputs = intermediates.get((*path, method), ())
        lost = [key for key in keys if key in selected.outermost and key not in intermediates]
        if lost or not ran or len(ran) != len(outputs):
            raise TapError(_out_of_reach((*path, method)))
        for key, output in zip(ran, outputs, strict=True):
            arrays = _arrays(output)
            if not arrays:
                raise TapError(f"{module_name(key)} is selected but returns no floating array")
            if key not in selected.nested:
                (markers,) = intermediates[key]
                captured[key] = [
                    _Captured(array, tuple(axis for axis, size in enumerate(marker.shape) if size))
                    for array, marker in zip(arrays, markers, strict=True)
                ]
    for key in intermediates:
        if (is_call(key) or key[-1] == "__call__") and method_of(key) not in selected.traced:
            raise TapError(_out_of_reach(key))
    return captured, dict(selected.traced)


def _also_mutable(kwargs: Mapping[str, Any], *collections: str) -> Any:
    return flax_scope.union_filters(kwargs.get("mutable", False), collections)


def _out_of_reach(key: CallKey) -> str:
    return (
        f"{module_name(key)} is selected, but what it returns does not arrive among the "
        "intermediates. Inside nn.scan or nn.vmap, add 'intermediates' to the variable_axes "
        "(nn.RNN has them too); inside nn.jit, whose cache skips calls, drop that and jit the "
        "whole step; if it belongs to another model, or to another call of this one, leave it "
        "out of `layers`"
    )


def _axes(
    key: CallKey, stated: int | None, batch_size: int | None, one: _Captured, two: _Captured
) -> Axes:
    shape = one.activation.shape
    batch = stated
    if batch is None:
        doubled = [(*shape[:axis], 2 * size, *shape[axis + 1 :]) for axis, size in enumerate(shape)]
        found = [
            axis
            for axis, size in enumerate(shape)
            if size == batch_size and two.activation.shape == doubled[axis]
        ]
        if not found:
            raise TapError(
                f"no axis of {module_name(key)}, whose output has shape {list(shape)}, indexes "
                f"the {batch_size} examples of the batch. Leave it out of `layers`, tap it "
                "where the examples have an axis of their own, or say with `in_axes` which "
                "inputs carry the batch"
            )
        (batch,) = found
    if not -len(shape) <= batch < len(shape):
        raise TapError(f"tap_axes puts the batch of {module_name(key)}, {list(shape)}, on {batch}")
    batch %= len(shape)
    return Axes(batch, tuple(axis for axis in one.stacked if axis != batch))


def _stated_axis(key: CallKey, tap_axes: TapAxes, captured: Mapping) -> int | None:
    if not isinstance(tap_axes, Mapping):
        return tap_axes
    names = {module_name(other) for other in captured}
    if unknown := set(tap_axes) - names:
        raise TapError(f"tap_axes names {sorted(unknown)}; the taps are {sorted(names)}")
    return tap_axes.get(module_name(key))


@contextlib.contextmanager
def _noted(note: str) -> Iterator[None]:
    try:
        yield
    except TapError:
        raise
    except Exception as error:
        error.add_note(f"har_jax: {note}.")
        raise


def _arrays(output: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(output) if _inexact(leaf)]


def _inexact(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)


def _without(perturbations: Mapping[CallKey, Any], mutated: Mapping[str, Any]):
    """Takes the perturbations out of the collections that the model returned."""
    kept = traverse_util.flatten_dict(dict(mutated.get("intermediates", {})))
    kept = {key: value for key, value in kept.items() if key not in perturbations}
    rest = {name: value for name, value in mutated.items() if name != "intermediates"}
    return {**rest, "intermediates": traverse_util.unflatten_dict(kept)} if kept else rest
