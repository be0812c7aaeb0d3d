"""Which modules of an NNX model are layers that R is taken at, and their names."""

from collections.abc import Callable, Sequence
from typing import Any

from flax import nnx

from har_jax import linen
from har_jax.tapping import TapError

Path = tuple[Any, ...]
"""Where a module lies in a model, as ``nnx.iter_modules`` says it: names and integers."""

Filter = Callable[[Path, nnx.Module], bool]
"""``(path, module) -> whether to tap what a call of the module returns``."""

_NORMALIZATIONS = (nnx.BatchNorm, nnx.LayerNorm, nnx.RMSNorm, nnx.GroupNorm, nnx.InstanceNorm)


def normalization_layers(path: Path, module: nnx.Module) -> bool:
    """Selects the output of every normalization layer of NNX: the paper's choice.

    Args:
      path: Of the module in the model.
      module: Of the model.

    Returns:
      Whether to tap what calls of the module return.
    """
    return isinstance(module, _NORMALIZATIONS)


def _but_stem(path: Path, module: nnx.Module) -> bool:
    stem = any(str(part).startswith("stem") for part in path)
    return normalization_layers(path, module) and not stem


def _embeddings_and_recurrent_layers(path: Path, module: nnx.Module) -> bool:
    return isinstance(module, (nnx.Embed, nnx.Bidirectional))


FILTERS: Sequence[tuple[linen.Filter, Filter]] = (
    (linen.normalization_layers, normalization_layers),
    (linen.normalization_layers_but_stem, _but_stem),
    (linen.embeddings_and_recurrent_layers, _embeddings_and_recurrent_layers),
)
"""Filters of Linen's calls, and those of NNX's modules that do the same."""


def selected_layers(
    model: nnx.Module, layers: Filter, asked: str = "path, module"
) -> dict[Path, str]:
    """The names of the modules that a filter selects, by path.

    Args:
      model: Its modules, and itself, are asked for once each, also those that lie at several paths.
      layers: The filter.
      asked: What the filter that a person gave is asked about, for messages.

    Raises:
      ValueError: if ``layers`` is no filter.
      TapError: if it selects nothing.
    """
    if isinstance(layers, type) or not callable(layers):
        raise ValueError(f"layers={layers!r} is not a filter (path, module) -> bool")
    seen: set[int] = set()
    selected = {}
    for path, module in nnx.iter_modules(model):
        if id(module) not in seen and layers(path, module):
            selected[path] = "/".join(map(str, path)) or "__call__"
        seen.add(id(module))
    if not selected:
        raise TapError(
            f"the filter `layers` selects no module of the {type(model).__name__}: R would be "
            f"zero. Give one that does, such as `lambda {asked}: isinstance(module, nnx.Linear)`"
        )
    return selected
