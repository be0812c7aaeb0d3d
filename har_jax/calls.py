"""The calls of a Flax Linen model that a filter selects, each with a name of its own.

Flax may trace a module more often than it runs it (``nn.scan`` does) and may run a
shared one under several roots (``nn.remat`` does): a module's path alone does not tell
which call a perturbation belongs to.
"""

import collections
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flax import linen as nn
from jax.extend.core import get_opaque_trace_state

from har_jax.layers import Filter

CallKey = tuple[str, ...]
"""A module's path, then the name of one call: ``("encoder", "norm", "har_jax:__call__:0")``."""

_PREFIX = "har_jax"


class TapError(ValueError):
    """The selected layers cannot be tapped: the message names them and the remedy."""


class SelectedCalls:
    """Names the calls that a filter selects, in the order in which they are traced.

    Attributes:
      traced: How many calls of a method were traced, by module path and method.
      nested: Calls inside of another one of the same method on the same module, as those of
        ``super().__call__``: the outer one is the layer.
      outermost: Calls in no transformation: they run as often as they are traced.
    """

    def __init__(self, layers: Filter, visit: Callable[[nn.Module, CallKey, Any], Any]) -> None:
        self.traced: collections.Counter[CallKey] = collections.Counter()
        self.nested: set[CallKey] = set()
        self.outermost: set[CallKey] = set()
        self._layers, self._visit = layers, visit
        self._open: list[tuple[Any, str]] = []

    def intercepting(self):
        """A context in which the selected calls are visited."""
        self._trace = _current_trace()
        return nn.intercept_methods(self._intercept)

    def _intercept(self, next_fun, args, kwargs, context):
        module, method = context.module, context.method_name
        # Flax's own checks of `setup` run under method names that no class has.
        if module.scope is None or not hasattr(type(module), method):
            return next_fun(*args, **kwargs)
        if not self._layers(module, method):
            return next_fun(*args, **kwargs)
        path, this = module.scope.path, (module.scope, method)
        if module.scope.trace_level != _current_trace():
            raise TapError(
                f"{'/'.join(path)} is called inside of a transformation of JAX that Flax does not "
                "see, such as jax.vmap, jax.lax.scan or jax.checkpoint: use nn.vmap, nn.scan or "
                "nn.remat, or leave it out of `layers`"
            )
        self._open.append(this)
        try:
            output = next_fun(*args, **kwargs)
        finally:
            self._open.pop()
        key = call_key(path, method, self.traced[(*path, method)])
        self.traced[(*path, method)] += 1
        if this in self._open:
            self.nested.add(key)
        if module.scope.trace_level == self._trace:
            self.outermost.add(key)
        return self._visit(module, key, output)


def call_key(path: Sequence[str], method: str, number: int) -> CallKey:
    """The key of the call of this number, in the order of tracing."""
    return (*path, f"{_PREFIX}:{method}:{number}")


def is_call(key: CallKey) -> bool:
    """Whether :func:`call_key` made this key."""
    return key[-1].startswith(f"{_PREFIX}:")


def method_of(key: CallKey) -> CallKey:
    """The module's path and the method's name, from a call's key or such a pair itself."""
    *path, name = key
    return (*path, name.split(":")[1] if is_call(key) else name)


def module_name(key: CallKey) -> str:
    """``encoder/norm``; with the method's name behind it where that is not ``__call__``."""
    *path, method = method_of(key)
    return "/".join(path if method == "__call__" else [*path, method]) or "__call__"


def first_difference(one: Mapping[CallKey, Any], other: Mapping[CallKey, Any]) -> str:
    """The name of a module whose values in the two mappings differ."""
    key = next(key for key in {**one, **other} if one.get(key) != other.get(key))
    return module_name(key)


def unused_collection() -> str:
    """A new name: as part of ``mutable`` it keeps what nn.jit cached before from being used."""
    return f"{_PREFIX}:{next(_counter)}"


_counter = itertools.count()


def _current_trace() -> Any:
    return get_opaque_trace_state(convention="flax")
