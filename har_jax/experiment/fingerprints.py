"""Which keys of a config the folder of each stage depends on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_collections import config_dict

from har_jax.config import own
from har_jax.config.defaults import OPTIONS, flatten, join
from har_jax.config.schema import SECTIONS
from har_jax.methods import METHODS
from har_jax.options import Parameter, options

_COMMON = ("seed", "data", "model", "batch_size", "microbatches", "optimizer")
PRETRAIN = (*_COMMON, "pretrain")
_ESTIMATE = (*PRETRAIN, "estimate")
_FOREIGN = ("seed", "data", "estimate")  # where no model is pre-trained
_LAYERS = ("regularizer.layers", join("regularizer", OPTIONS))
R = (*_LAYERS, "regularizer.reduction")
START = (*_COMMON, "train")
_TRAIN = (*START, "reweighting")


def of_estimate(*, foreign: bool) -> tuple[str, ...]:
    """Those of the estimate, from a model of this run or from another program's probabilities."""
    return _FOREIGN if foreign else _ESTIMATE


def of_method(name: str, config: config_dict.ConfigDict) -> tuple[str, ...]:
    """Those of a method, by the name that a config gives it."""
    foreign = config.estimate.probabilities is not None
    entry = own.entry_of(name)
    path, chosen = own.options_of_method(name)
    return (
        *_TRAIN,
        *(join(path, option) for option in chosen),
        *(_LAYERS if entry.takes("layers") else ()),
        *(("loss",) if entry.takes_any_loss else ()),
        *(of_estimate(foreign=foreign) if own.estimates(name, flatten(config)) else ()),
    )


def of_selection(name: str) -> tuple[str, ...]:
    """Those of the examples that a method is trained on; none where these are all."""
    selects = own.entry_of(name).selects
    if selects is None:
        return ()
    path, _ = own.options_of_method(name)
    return (*START, *(join(path, option) for option in options(selects)))


def of_name(name: str) -> dict[str, str]:
    """What tells a person's own method from others of its name."""
    return {} if name in METHODS else {f"methods: {own.method_name(name)}": name}


def fingerprint(config: config_dict.ConfigDict, keys: Sequence[str]) -> dict[str, Any]:
    """The values of some keys, each of which may be a section, by key.

    Without those of places, which do not change what is there.
    """
    flat = flatten(config)
    places = set(_places(flat))
    return {
        key: value
        for key, value in flat.items()
        if key not in places
        and any(key == prefix or key.startswith(f"{prefix}.") for prefix in keys)
    }


def _places(flat: Mapping[str, Any]) -> Iterator[str]:
    """The keys that say where or how something is read."""
    for key, parameter in _described(flat):
        if parameter.option is not None and parameter.option.place:
            yield key


def _described(flat: Mapping[str, Any]) -> Iterator[tuple[str, Parameter]]:
    """The keys of options, a person's own among them, with their descriptions."""
    for path, section in SECTIONS.items():
        options = dict(section.plain)
        for selector in section.selectors:
            for name, readers in selector.read_by().items():
                options[name] = next(iter(readers.values()))
            value = flat[join(path, selector.name)]
            if own.is_own(selector, value):
                for name, parameter in own.options_of(path, selector, value).items():
                    yield join(join(path, OPTIONS), name), parameter
        for name, parameter in options.items():
            yield join(path, name), parameter
