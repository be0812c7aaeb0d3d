"""A person's own images or texts, in a table."""

import os
import pathlib
from typing import Annotated

from har_jax.data.hold_out import HoldOut
from har_jax.data.labels import OnMissingLabel
from har_jax.data.listing.tables import list_table
from har_jax.data.reading.encoded import Reading
from har_jax.data.reading.texts import Encoding
from har_jax.data.sources.listed import listed
from har_jax.data.sources.source import Source
from har_jax.options import Option


def table(
    *,
    table: Annotated[str | os.PathLike[str], Option("the CSV file", place=True)],
    root: Annotated[
        str | os.PathLike[str] | None,
        Option("what paths are relative to; None: the table's own folder", place=True),
    ] = None,
    on_missing_label: OnMissingLabel = "stop",
    hold_out: HoldOut | None = None,
    reading: Reading | None = None,
    encoding: Encoding | None = None,
) -> Source:
    """What a CSV file lists, with columns ``path`` or ``text``, ``label``, and perhaps more.

    See :func:`har_jax.data.listing.tables.list_table`.
    """
    path = lambda given: pathlib.Path(os.path.expanduser(given))
    return listed(
        list_table(path(table), None if root is None else path(root)),
        "csv",
        on_missing_label=on_missing_label,
        hold_out=hold_out,
        reading=reading,
        encoding=encoding,
    )
