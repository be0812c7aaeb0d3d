"""The calls of a Flax Linen model that a filter selects: what they return is marked."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator

from flax import linen as nn

from har_jax.linen.layers import Filter
from har_jax.tapping.marks import setting
from har_jax.tapping.outputs import mark_output


@dataclasses.dataclass
class Asked:
    """What modules of another framework are asked, by a Linen module around them.

    Such a Linen module says ``asks_itself = True``, is not asked for itself, and marks its inner
    modules' calls.

    Attributes:
      layers: The filter.
      uncalled: Where it leaves the names of inner modules that are selected and not seen called.
    """

    layers: Filter
    uncalled: set[str] = dataclasses.field(default_factory=set)


asked_now: contextvars.ContextVar[Asked | None] = contextvars.ContextVar("asked", default=None)


@contextlib.contextmanager
def marking(layers: Filter) -> Iterator[Asked]:
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
        if getattr(module, "asks_itself", False):
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

    asked = Asked(layers)
    with nn.intercept_methods(intercept), setting(asked_now, asked):
        yield asked


def _name(module: nn.Module, method: str) -> str:
    path = module.scope.path if module.scope else ()
    return "/".join(path if method == "__call__" else [*path, method]) or "__call__"
