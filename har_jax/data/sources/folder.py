"""A person's own images, in a folder for each class."""

import os
import pathlib
from typing import Annotated

from har_jax.data.hold_out import HoldOut
from har_jax.data.labels import OnMissingLabel
from har_jax.data.listing.folders import list_folder
from har_jax.data.reading.encoded import Reading
from har_jax.data.sources.listed import listed
from har_jax.data.sources.source import Source
from har_jax.options import Option


def folder(
    *,
    root: Annotated[str | os.PathLike[str], Option("the folder", place=True)],
    has_splits: Annotated[
        bool | None,
        Option("whether the folders in it are splits, or classes; None: as their names say"),
    ] = None,
    on_missing_label: OnMissingLabel = "stop",
    hold_out: HoldOut | None = None,
    reading: Reading | None = None,
) -> Source:
    """Images in ``root/CLASS/...``, or in ``root/train/CLASS/...`` and ``root/test/CLASS/...``.

    See :func:`har_jax.data.listing.folders.list_folder`.
    """
    found = list_folder(pathlib.Path(os.path.expanduser(root)), has_splits)
    return listed(
        found, "folder", on_missing_label=on_missing_label, hold_out=hold_out, reading=reading
    )
