"""Config files: where they are, and how one fails, in one line."""

import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict

from har_jax.config.defaults import base, flatten
from har_jax.config.errors import unknown_key


def packaged() -> Mapping[str, pathlib.Path]:
    """The config files that come with the package, by name."""
    package = pathlib.Path(__file__).parent.parent
    for folder in (package / "configs", package.parent / "configs"):  # installed; a repository
        if files := sorted(folder.glob("[a-z]*.py")):
            return {file.stem: file for file in files}
    return {}


def find(given: str) -> pathlib.Path | None:
    """The file of this path, or else the packaged one of this name; None if there is neither."""
    path = pathlib.Path(given)
    return path if path.is_file() else packaged().get(given)


def load(path: pathlib.Path) -> Any:
    """What ``get_config()`` of a config file returns.

    Modules beside the file can be imported, by it and by what it names.

    Raises:
      Exception: of any kind, since a config file is a program; :func:`failure` tells of it.
    """
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    loader = importlib.machinery.SourceFileLoader(f"config_{path.stem}", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    try:
        loader.exec_module(module)
        return module.get_config()
    except SystemExit as error:
        raise RuntimeError(f"it ends the program, with {error.code!r}") from error


def failure(error: Exception) -> str:
    """What went wrong in a config file, by the exception that came out of it."""
    if key := _missing_key(error):
        return str(unknown_key(key, flatten(base())))
    if told := _wrong_type(error):
        return told
    return f"the config file fails: {type(error).__name__}: {error}"


def _wrong_type(error: Exception) -> str | None:
    """What is told of a value that a key of ours does not take, if that is the error."""
    if not isinstance(error, TypeError) or "Could not override field" not in str(error):
        return None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner, key = frame.f_locals.get("self"), frame.f_locals.get("key")
        if frame.f_code.co_name == "__setitem__" and isinstance(owner, config_dict.ConfigDict):
            section = _path(set(owner.keys()))
            if section is None or not isinstance(key, str) or "." in key:
                continue
            value, needed = frame.f_locals.get("value"), owner.get_type(key).__name__
            return f"config.{section}{key}={value!r} has the wrong type: {needed} needed"
    return None


def _missing_key(error: Exception) -> str | None:
    """The dotted key that a config was to read or set and does not have, if that is the error.

    Messages have the last part of it only; the section is the one that raised.
    """
    if not isinstance(error, (AttributeError, KeyError)):
        return None
    if match := re.search(r'Key "([\w.]+)" cannot be set', str(error)):
        return match[1]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    variables = frames[-1].f_locals if frames else {}
    owner = variables.get("self")
    name = variables.get("attribute", variables.get("key"))
    if not isinstance(owner, config_dict.ConfigDict) or not isinstance(name, str) or name in owner:
        return None
    section = _path(set(owner.keys()))
    return None if section is None else f"{section}{name}"


def _path(keys: set[str]) -> str | None:
    """The section, with a dot behind it, that has these keys; None for a config of another kind."""
    sections = _sections(base(), "")
    likeness = {
        path: len(keys & known) / len(keys | known) for path, known in sections.items() if known
    }
    best = max(likeness, key=lambda path: likeness[path])
    return best if likeness[best] >= 0.5 else None


def _sections(config: config_dict.ConfigDict, path: str) -> dict[str, set[str]]:
    found = {path: set(config.keys())}
    for name, value in config.items():
        if isinstance(value, config_dict.ConfigDict):
            found |= _sections(value, f"{path}{name}.")
    return found
