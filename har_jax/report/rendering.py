"""Pages from the templates beside this file, in which all but figures is escaped."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jinja2

from har_jax.config.defaults import base, flatten
from har_jax.system.files import write_text
from har_jax.system.terminal import brief


def write(path: pathlib.Path, template: str, **values: Any) -> None:
    """Writes a page that needs no other file."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["sentence"] = sentence
    write_text(path, environment.get_template(template).render(**values))


def sentence(text: str) -> str:
    """With a capital and a full stop; names in it stay as they are."""
    return f"{text[:1].upper()}{text[1:]}."


def lines(values: Mapping[str, Any]) -> list[str]:
    """Keys with their values, long lists cut."""
    as_text = lambda value: brief(value) if " in all)" in brief(value) else json.dumps(value)
    return [f"{key}: {as_text(value)}" for key, value in values.items()]


def split_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What differs from the defaults, and the rest.

    Args:
      config: By dotted key, with ``devices`` as they were found.
    """
    defaults = {"devices": config.get("devices"), **flatten(base())}
    as_json = lambda value: json.loads(json.dumps(value))  # of a file, where tuples are lists
    differs = lambda key: as_json(config[key]) != as_json(defaults.get(key))
    changed = {key: value for key, value in config.items() if differs(key)}
    return changed, {key: value for key, value in config.items() if key not in changed}
