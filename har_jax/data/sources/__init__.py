"""Sources of data: a file each, and a line here."""

from collections.abc import Callable, Mapping

from har_jax.data.sources.digits import digits
from har_jax.data.sources.folder import folder
from har_jax.data.sources.lists import lists
from har_jax.data.sources.source import Kind, Source
from har_jax.data.sources.table import table
from har_jax.data.sources.tfds import tfds
from har_jax.data.sources.webvision import webvision

SOURCES: Mapping[str, Callable[..., Source]] = {
    "digits": digits,
    "folder": folder,
    "csv": table,
    "list": lists,
    "webvision": webvision,
    "tfds": tfds,
}
"""The sources that a config can name; ``tfds:NAME`` for the last."""

__all__ = ["SOURCES", "Kind", "Source", "digits", "folder", "lists", "table", "tfds", "webvision"]
