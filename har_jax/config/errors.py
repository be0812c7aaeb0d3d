"""What is wrong with a config, in one line: the key, the value and the remedy."""

import difflib
from collections.abc import Iterable


class ConfigError(ValueError):
    """A config that cannot be run."""


def unknown_key(key: str, known: Iterable[str]) -> ConfigError:
    """The error for a key that no config has, with the nearest one that it has.

    That is one of the same section, or else the key of another section that is called so, or
    nearly.

    Args:
      key: Such as ``model.dept``.
      known: All keys that there are.
    """
    known = list(known)
    section, dot, name = key.rpartition(".")
    inside = {
        other.removeprefix(section + dot).partition(".")[0]: other
        for other in known
        if other.startswith(section + dot)
    }
    called = {other.rpartition(".")[2] for other in known}
    if near := difflib.get_close_matches(name, inside, n=1):
        remedy = f"did you mean config.{section}{dot}{near[0]}?"
    elif near := difflib.get_close_matches(name, called, n=1, cutoff=0.8):
        there = [other for other in known if other.rpartition(".")[2] == near[0]]
        remedy = f"did you mean config.{difflib.get_close_matches(key, there, 1, 0.0)[0]}?"
    elif inside:
        remedy = f"there are {', '.join(f'config.{section}{dot}{other}' for other in inside)}"
    elif near := difflib.get_close_matches(key, known, n=1):
        remedy = f"did you mean config.{near[0]}?"
    else:
        remedy = f"there are {', '.join(f'config.{other}' for other in known)}"
    return ConfigError(f"config.{key} does not exist: {remedy}")
