"""Which activations of a Flax Linen model are tapped, and how zeros are added to them.

A *tap* is one call of one selected module method. What is selected is said by a filter
of the kind that Flax's ``capture_intermediates`` takes, and what Flax captures under it
is what is differentiated. The zeros travel in the collection ``intermediates`` as well,
so that Flax's lifted transformations slice and stack them as they do what is captured.

Flax may trace a module more often than it runs it (``nn.scan`` does) and may run a
shared one under several roots (``nn.remat`` does). So every call that is traced gets a
name of its own, and of these names the ones that reach the captured intermediates are
the calls that ran.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import traverse_util
from flax.core import scope as flax_scope
from jaxtyping import PyTree

from har_jax.jacobian import Axes

Filter = Callable[[nn.Module, str], bool]
TapAxes = int | Mapping[str, int] | None

_NORMALIZATIONS = (nn.BatchNorm, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.InstanceNorm)


def normalization_layers(module: nn.Module, method_name: str) -> bool:
    """Selects the output of every Flax normalization layer: the paper's choice.

    The signature is that of Flax's ``capture_intermediates`` filters. The models of this
    library scale and shift outside of the Flax layer (:class:`har_jax.models.Norm`), so
    that what is selected there is the normalized activation before scale and bias.

    Args:
      module: A bound module.
      method_name: The name of the method that was called.

    Returns:
      Whether to tap the output of this call.
    """
    return method_name == "__call__" and isinstance(module, _NORMALIZATIONS)


def normalization_layers_but_stem(module: nn.Module, method_name: str) -> bool:
    """Selects as :func:`normalization_layers`, outside of submodules called ``stem...``.

    The authors' code taps the norms inside the residual blocks and not the first one.
    """
    return normalization_layers(module, method_name) and not any(
        part.startswith("stem") for part in module.path
    )


FILTERS: Mapping[str, Filter] = {
    "normalization": normalization_layers,
    "normalization_but_stem": normalization_layers_but_stem,
}
"""The filters that a config can name."""


class TapError(ValueError):
    """The selected layers cannot be tapped: the message names them and the remedy."""


@dataclasses.dataclass(frozen=True)
class Taps:
    """The taps of a model on a batch, as :func:`find_taps` finds them.

    ``perturbations`` and ``axes`` are keyed by module path and call name; each value is
    a list with one entry per floating array that the call returned.
    """

    layers: Filter
    perturbations: dict[tuple[str, ...], list[jax.Array]]
    axes: dict[tuple[str, ...], list[Axes]]
    traced: Mapping[tuple[str, ...], int]

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

        def add(module: nn.Module, key: tuple[str, ...], output: Any) -> Any:
            if key not in perturbations:
                return output  # one of the traces that Flax throws away
            zeros: Iterator[jax.Array] = iter(module.get_variable("intermediates", key[-1]))
            return jax.tree.map(lambda leaf: leaf + next(zeros) if _inexact(leaf) else leaf, output)

        selected = _SelectedCalls(self.layers, add)
        intermediates = traverse_util.unflatten_dict(perturbations)
        with nn.intercept_methods(selected.intercept):
            result = apply({**variables, "intermediates": intermediates}, *args, **kwargs)
        if selected.traced != self.traced:
            raise TapError(
                f"{_first_difference(selected.traced, self.traced)} was traced a different "
                "number of times than before; nn.jit inside the model, whose cache skips "
                "calls, does that: jit the whole step instead"
            )
        if kwargs.get("mutable", False) is False:
            return result, {}
        outputs, mutated = result
        return outputs, _without(perturbations, mutated)

    def by_name(self, values: Mapping[tuple[str, ...], Sequence[Any]]) -> dict[str, Any]:
        """Flattens per-tap values to ``{"path/to/module": value}``.

        Where a module has several taps, the names end in ``[0]``, ``[1]``, ....
        """
        grouped: dict[str, list[Any]] = collections.defaultdict(list)
        for key, per_output in values.items():
            grouped[_module_name(key)].extend(per_output)
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
      apply: ``flax.linen.Module.apply`` of the model, or a function that passes its
        keyword arguments on to it.
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
      TapError: if nothing is selected, if a lifted transformation drops a selected
        layer, or if a tap has no batch axis.
      ValueError: if the inputs do not agree on the batch size.
    """
    batch_size = _batch_size(args, kwargs, in_axes)
    captured, traced = _capture(apply, layers, variables, args, kwargs)
    if not captured:
        raise TapError(
            "the filter `layers` selects no call of the model: R would be zero. "
            "Give one that does, such as `lambda module, method: isinstance(module, nn.Dense)`"
        )
    stated = {key: _stated_axis(key, tap_axes, captured) for key in captured}
    if None in stated.values():
        if batch_size is None:
            raise ValueError("no input carries the batch: correct `in_axes`, or state `tap_axes`")
        twice, _ = _capture(apply, layers, variables, *_repeat(args, kwargs, in_axes))
    else:
        twice = captured
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


class _SelectedCalls:
    """Names the calls that a filter selects, in the order in which they are traced."""

    def __init__(
        self, layers: Filter, visit: Callable[[nn.Module, tuple[str, ...], Any], Any]
    ) -> None:
        self.traced: collections.Counter[tuple[str, ...]] = collections.Counter()
        self._layers = layers
        self._visit = visit

    def intercept(self, next_fun, args, kwargs, context):
        output = next_fun(*args, **kwargs)
        module, method = context.module, context.method_name
        # Flax's own checks of `setup` run under method names that no class has.
        if module.scope is None or not hasattr(type(module), method):
            return output
        if not self._layers(module, method):
            return output
        path = module.scope.path
        serial = self.traced[(*path, method)]
        self.traced[(*path, method)] += 1
        return self._visit(module, (*path, f"{method}:{serial}"), output)


def _capture(apply, layers, variables, args, kwargs):
    """Traces the model: what it captures, by module path and call name; and its traces."""

    def mark(module: nn.Module, key: tuple[str, ...], output: Any) -> Any:
        # All sizes are 0, so that the axes added by lifted transformations stand out.
        arrays = [leaf for leaf in jax.tree.leaves(output) if _inexact(leaf)]
        module.sow("intermediates", key[-1], [jnp.zeros((0,) * jnp.ndim(leaf)) for leaf in arrays])
        return output

    selected = _SelectedCalls(layers, mark)
    mutable = flax_scope.union_filters(kwargs.get("mutable", False), "intermediates")
    options = {**kwargs, "mutable": mutable, "capture_intermediates": layers}

    variables = {name: value for name, value in variables.items() if name != "intermediates"}

    def run():
        with nn.intercept_methods(selected.intercept):
            return apply(variables, *args, **options)[1].get("intermediates", {})

    intermediates = traverse_util.flatten_dict(dict(jax.eval_shape(run)))
    captured = {}
    for (*path, method), traced in selected.traced.items():
        names = [f"{method}:{serial}" for serial in range(traced)]
        ran = [(*path, name) for name in names if (*path, name) in intermediates]
        outputs = intermediates.get((*path, method), ())
        if not ran or len(ran) != len(outputs):
            raise TapError(
                f"{_module_name((*path, method))} is selected, but Flax does not capture it. "
                "Inside nn.scan or nn.vmap, add 'intermediates' to the variable_axes; inside "
                "nn.jit, drop that and jit the whole step; if it belongs to another model, "
                "leave it out of `layers`"
            )
        for key, output in zip(ran, outputs, strict=True):
            arrays = [leaf for leaf in jax.tree.leaves(output) if _inexact(leaf)]
            if not arrays:
                raise TapError(f"{_module_name(key)} is selected but returns no floating array")
            (markers,) = intermediates[key]
            captured[key] = [
                _Captured(array, tuple(axis for axis, size in enumerate(marker.shape) if size))
                for array, marker in zip(arrays, markers, strict=True)
            ]
    return captured, dict(selected.traced)


def _axes(
    key: tuple[str, ...], stated: int | None, batch_size: int | None, one: _Captured, two: _Captured
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
                f"no axis of {_module_name(key)}, whose output has shape {list(shape)}, indexes "
                f"the {batch_size} examples of the batch. Leave it out of `layers`, tap it "
                "where the examples have an axis of their own, or say with `in_axes` which "
                "inputs carry the batch"
            )
        (batch,) = found
    if not -len(shape) <= batch < len(shape):
        raise TapError(f"tap_axes puts the batch of {_module_name(key)}, {list(shape)}, on {batch}")
    batch %= len(shape)
    return Axes(batch, tuple(axis for axis in one.stacked if axis != batch))


def _stated_axis(key: tuple[str, ...], tap_axes: TapAxes, captured: Mapping) -> int | None:
    if tap_axes is None or isinstance(tap_axes, int):
        return tap_axes
    names = {_module_name(other) for other in captured}
    if unknown := set(tap_axes) - names:
        raise TapError(f"tap_axes names {sorted(unknown)}; the taps are {sorted(names)}")
    return tap_axes.get(_module_name(key))


def _map_batched(fun: Callable[[Any, int], Any], args, kwargs, in_axes):
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


_APPLY_OPTIONS = frozenset({"rngs", "method", "mutable", "capture_intermediates"})


def _batch_size(args, kwargs, in_axes) -> int | None:
    sizes: set[int] = set()
    _map_batched(lambda array, axis: sizes.add(array.shape[axis]), args, kwargs, in_axes)
    if len(sizes) > 1:
        raise ValueError(
            f"the model's inputs hold batches of different sizes, {sorted(sizes)}: say with "
            "`in_axes`, as in jax.vmap, which of them carry the batch and on which axis"
        )
    return sizes.pop() if sizes else None


def _repeat(args, kwargs, in_axes):
    return _map_batched(
        lambda array, axis: jnp.concatenate([array, array], axis), args, kwargs, in_axes
    )


def _inexact(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)


def _module_name(key: tuple[str, ...]) -> str:
    *path, call = key
    method = call.split(":")[0]
    parts = path if method == "__call__" else [*path, method]
    return "/".join(parts) or "__call__"


def _first_difference(one: Mapping, other: Mapping) -> str:
    key = next(key for key in {**one, **other} if one.get(key) != other.get(key))
    return _module_name(key)


def _without(perturbations: Mapping[tuple[str, ...], Any], mutated: Mapping[str, Any]):
    """Takes the perturbations out of the collections that the model returned."""
    kept = traverse_util.flatten_dict(dict(mutated.get("intermediates", {})))
    kept = {key: value for key, value in kept.items() if key not in perturbations}
    rest = {name: value for name, value in mutated.items() if name != "intermediates"}
    return {**rest, "intermediates": traverse_util.unflatten_dict(kept)} if kept else rest
