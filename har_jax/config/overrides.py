"""What a command line says of a config: its file, and values by key."""

import ast
import pathlib
import re
from collections.abc import Collection, Iterator
from typing import Any

from ml_collections import config_dict

from har_jax.config import files, own
from har_jax.config.defaults import base, flatten, join
from har_jax.config.errors import ConfigError, unknown_key
from har_jax.config.schema import SECTIONS

_FLAG = r"--?config\.([\w.]+)"


def take_file(argv: list[str]) -> tuple[list[str], pathlib.Path]:
    """Takes ``--config=FILE`` out of the arguments.

    Returns:
      The rest, and the file, which may be given by the name of one that comes with the package.

    Raises:
      ConfigError: if there is none.
    """
    rest, given = [], None
    arguments = iter(argv)
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in ("--config", "-config"):
            given = value if equals else next(arguments, "")
        else:
            rest.append(argument)
    if given is None:
        raise ConfigError("--config is missing: try --config=configs/digits.py")
    found = files.find(given)
    if found is None:
        raise ConfigError(
            f"there is no config file {given}: give its path from {pathlib.Path.cwd()}, or the "
            f"name of one that comes with this package: {', '.join(files.packaged())}"
        )
    return rest, found


def prepare(config: config_dict.ConfigDict, argv: list[str]) -> list[str]:
    """Makes a config ready for flags to override it.

    Choices that the arguments name are set first, since it depends on them which options there are.

    Returns:
      The arguments, without those that unset a key, which no flag can say.

    Raises:
      ConfigError: if an argument is of a key that there is not.
    """
    _set_choices(config, argv)
    declared = own.declare(config)
    keys = flatten(config)
    for argument in argv:
        if match := re.match(_FLAG, argument):
            key = match[1]
            if key not in keys and not any(known.startswith(f"{key}.") for known in keys):
                raise unknown_key(key, keys)
    unsettable = {key for key, value in flatten(base()).items() if value is None}
    unsettable |= {key for key, parameter in declared.items() if parameter.default is None}
    return _unset(config, argv, unsettable)


def wrong_value(config: Any, argv: list[str], message: str) -> str:
    """What absl says of a value that is not of the type of its key, in our words."""
    if match := re.search(r"flag --config\.([\w.]+)=", message):
        key = match[1]
        value = dict(_values(argv, {key})).get(key)
        *path, last = key.split(".")
        for name in path:
            config = config[name]
        says = config.get_type(last)
        needed = says.__name__ if says is not tuple else """tuple, such as '("a","b")',"""
        return f"config.{key}={value!r} has the wrong type: {needed} needed"
    return message


def seeds(text: str | None) -> tuple[int, ...]:
    """The seeds that ``--seeds`` lists; none where it is not given.

    Raises:
      ConfigError: if these are no different, nonnegative integers.
    """
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]+", part) for part in parts):
        raise ConfigError(
            f"--seeds={text} has to be nonnegative integers with commas between, such as 0,1,2"
        )
    found = tuple(map(int, parts))
    if twice := sorted({seed for seed in found if found.count(seed) > 1}):
        raise ConfigError(f"--seeds={text} has {twice[0]} more than once")
    return found


def is_given(key: str, argv: list[str]) -> bool:
    """Whether the arguments say anything of a key."""
    return any(True for _ in _values(argv, {key}))


def _set_choices(config: config_dict.ConfigDict, argv: list[str]) -> None:
    selectors = {
        join(path, section.own.name): str
        for path, section in SECTIONS.items()
        if section.own is not None
    }
    given = dict(_values(argv, {*selectors, "methods"}))
    for key, value in given.items():
        if key == "methods":
            try:
                value = ast.literal_eval(value)
            except (ValueError, SyntaxError):  # one name alone, or told of by who reads the flag
                if "," in value:
                    continue
            value = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        config.update_from_flattened_dict({key: value})


def _values(argv: list[str], keys: set[str]) -> Iterator[tuple[str, Any]]:
    """What the arguments say of some keys, each of which may have its value behind it."""
    for place, argument in enumerate(argv):
        name, equals, value = argument.partition("=")
        if (match := re.fullmatch(_FLAG, name)) and match[1] in keys:
            yield match[1], value if equals else (argv[place + 1 : place + 2] or [""])[0]


def _unset(
    config: config_dict.ConfigDict, argv: list[str], unsettable: Collection[str]
) -> list[str]:
    """Applies ``--config.KEY=None``, of keys whose default it is."""
    rest = []
    for argument in argv:
        match = re.fullmatch(rf"{_FLAG}=None", argument)
        if match and match[1] in unsettable:
            config.update_from_flattened_dict({match[1]: None})
        else:
            rest.append(argument)
    return rest
