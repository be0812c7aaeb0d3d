"""Images that are named in lists, as ImageNet-LT and Places-LT are published."""

import os
import pathlib
from typing import Annotated

from har_jax.data.hold_out import HoldOut
from har_jax.data.listing.lists import list_lists
from har_jax.data.reading.encoded import Reading
from har_jax.data.sources.listed import listed
from har_jax.data.sources.source import Source
from har_jax.options import Option

_LINES = "a file of lines 'path id', in root or by an absolute path"


def lists(
    *,
    root: Annotated[
        str | os.PathLike[str], Option("the folder that paths are relative to", place=True)
    ],
    train_list: Annotated[str, Option(f"of what is trained on: {_LINES}", place=True)],
    test_list: Annotated[
        str | None, Option("of what is tested on; None: validation_list, or a part", place=True)
    ] = None,
    validation_list: Annotated[
        str | None, Option("of a further test set, or of the one that there is", place=True)
    ] = None,
    meta_list: Annotated[
        str | None, Option("of examples that are known to be labelled rightly", place=True)
    ] = None,
    class_list: Annotated[
        str | None,
        Option("a file of the classes' names, one a line; None: they are their ids", place=True),
    ] = None,
    hold_out: HoldOut | None = None,
    reading: Reading | None = None,
) -> Source:
    """Images named in a list for each split, with the id of their class behind the last blank.

    See :func:`har_jax.data.listing.lists.list_lists`.
    """
    given = {"train": train_list, "test": test_list, "validation": validation_list}
    given["meta"] = meta_list
    found = list_lists(
        pathlib.Path(os.path.expanduser(root)),
        {split: path for split, path in given.items() if path is not None},
        class_list,
    )
    return listed(found, "list", hold_out=hold_out, reading=reading)
