"""The config that every config file starts from: all keys, with their defaults."""

from collections.abc import Iterator
from typing import Any

from ml_collections import config_dict

from har_jax.config.schema import SECTIONS
from har_jax.options import Parameter

OPTIONS = "options"
"""The section, within another, of the options of a person's own choice."""


def base() -> config_dict.ConfigDict:
    """All keys with their defaults. ``None`` stands for what the choice at hand does not read."""
    config = config_dict.ConfigDict()
    config.method = _Methods()
    for path, section in SECTIONS.items():
        part = _section(config, path)
        for name, parameter in section.plain.items():
            part[name] = initial(parameter, parameter.default)
        for selector in section.selectors:
            part[selector.name] = selector.default
            for name, readers in selector.read_by().items():
                part[name] = initial(next(iter(readers.values())), None)
        if section.own is not None:
            part[OPTIONS] = config_dict.ConfigDict()
    config.lock()
    for part in own_sections(config):
        part.unlock()
    return config


class _Methods(config_dict.ConfigDict):
    """The options of methods, with a section for each; a person's own comes when it is named."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name not in self and not self.is_locked:
            self[name] = config_dict.ConfigDict()
        return super().__getattr__(name)


def own_sections(config: config_dict.ConfigDict) -> Iterator[config_dict.ConfigDict]:
    """The sections of options of a person's own choices, which have whatever keys those have."""
    yield config.method
    for path, section in SECTIONS.items():
        if section.own is not None:
            yield _section(config, path)[OPTIONS]


def flatten(config: config_dict.ConfigDict) -> dict[str, Any]:
    """``{"data.source": "digits", ...}``, in order, with lists as tuples."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, config_dict.ConfigDict):
            flat.update({f"{key}.{rest}": leaf for rest, leaf in flatten(value).items()})
        else:
            flat[key] = _as_tuple(value)
    return flat


def join(path: str, name: str) -> str:
    """The key of this name in a section."""
    return f"{path}.{name}" if path else name


def initial(parameter: Parameter, value: Any) -> Any:
    """What stands in a config for an option: a value of its type, or None with its type."""
    says = parameter.says
    if says in (float, tuple) and isinstance(value, (int, list)) and not isinstance(value, bool):
        value = says(value)
    fits = says is not None and isinstance(value, says)
    return value if fits else config_dict.placeholder(says)


def _section(config: config_dict.ConfigDict, path: str) -> config_dict.ConfigDict:
    for name in filter(None, path.split(".")):
        if name not in config:
            config[name] = config_dict.ConfigDict()
        config = config[name]
    return config


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, (list, tuple)) else value
