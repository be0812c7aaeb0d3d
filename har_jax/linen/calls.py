"""The calls of a Flax Linen model that a filter selects: what they return is marked."""

import contextlib

from flax import linen as nn

from har_jax.linen.layers import Filter
from har_jax.tapping.outputs import mark_output


def marking(layers: Filter) -> contextlib.AbstractContextManager[None]:
    """A context in which every array that a selected call returns is marked, once.

    The mark's name is the module's path, with the method's name behind it where that is not
    ``__call__``. Of a call inside of another one of the same method on the same module, as that
    of ``super().__call__``, the outer one is the layer.
    """
    under_way: list[tuple[nn.Module, str]] = []

    def intercept(next_fun, args, kwargs, context):
        module, method = context.module, context.method_name
        # Flax's own checks of `setup` run under method names that no class has.
        if module.scope is None or not hasattr(type(module), method):
            return next_fun(*args, **kwargs)
        nested = any(module is other and method == name for other, name in under_way)
        if nested or not layers(module, method):
            return next_fun(*args, **kwargs)
        under_way.append((module, method))
        try:
            output = next_fun(*args, **kwargs)
        finally:
            under_way.pop()
        return mark_output(output, _name(module, method))

    return nn.intercept_methods(intercept)


def _name(module: nn.Module, method: str) -> str:
    path = module.scope.path if module.scope else ()
    return "/".join(path if method == "__call__" else [*path, method]) or "__call__"
