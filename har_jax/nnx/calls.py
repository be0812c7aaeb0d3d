"""Marks on what modules of a copy of a model return.

NNX makes modules anew for each of its transformations, from a description that has a module's
class and its static attributes. These say that a module is marked: the class is one that does as
its own and marks what a call returns, and an attribute has the mark's name. So the marks are in
all that becomes of the copy and in none of the model's own modules, in no other thread, and in
nothing that would have to be undone; and what JAX keeps of functions that it has traced is told
apart by them, since the description is a part of the key.
"""

import contextlib
import contextvars
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from flax import nnx

from har_jax.nnx.layers import Path
from har_jax.tapping.marks import setting
from har_jax.tapping.outputs import mark_output

_called_now: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar(
    "called", default=None
)

_NAME = "_har_jax_name"


def mark_calls(model: nnx.Module, names: Mapping[Path, str]) -> None:
    """Makes each call of the modules at these paths mark what it returns, by the module's name.

    Args:
      model: A copy, that belongs to the trace that it is called in.
      names: By path.
    """
    for path, module in list(nnx.iter_modules(model)):
        if path in names and not hasattr(module, _NAME):
            object.__setattr__(module, "__class__", _marking(type(module)))
            setattr(module, _NAME, names[path])


@contextlib.contextmanager
def collecting_calls() -> Iterator[set[str]]:
    """Collects the names of marked modules that are called."""
    called = set[str]()
    with setting(_called_now, called):
        yield called


@functools.cache
def _marking(kind: type[nnx.Module]) -> type[nnx.Module]:
    """A class that does as this one and marks what calls return."""
    if not any("__call__" in vars(each) for each in kind.__mro__):
        return kind
    call: Any = kind.__call__

    @functools.wraps(call)
    def marked_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(self, _NAME)
        if (called := _called_now.get()) is not None:
            called.add(name)
        return mark_output(call(self, *args, **kwargs), name)

    same = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    derive: Any = type(kind)
    # Whether JAX sees into modules is not inherited.
    seen = {"pytree": kind._pytree__is_pytree}
    return derive(kind.__name__, (kind,), {**same, "__call__": marked_call}, **seen)
