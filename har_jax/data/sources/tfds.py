"""Sets of TensorFlow Datasets that have images or texts, and class labels."""

import dataclasses
import functools
import os
import pathlib
from typing import Annotated

from har_jax.data.hold_out import HoldOut
from har_jax.data.labels import OnMissingLabel
from har_jax.data.reading.encoded import Reading
from har_jax.data.reading.texts import Encoding
from har_jax.data.sources.prepared import find_or_prepare
from har_jax.data.sources.source import Source
from har_jax.options import Option

PREFIX = "tfds:"


def tfds(
    name: str,
    *,
    test_split: Annotated[
        str | None, Option("of TFDS, that is tested on; None: test, or else validation")
    ] = None,
    data_dir: str | os.PathLike[str] | None = None,
    on_missing_label: OnMissingLabel = "stop",
    hold_out: HoldOut | None = None,
    reading: Reading | None = None,
    encoding: Encoding | None = None,
) -> Source:
    """A set by its name.

    Args:
      name: ``NAME[/CONFIG][:VERSION]``.
      test_split: What is tested on; ``test`` where there is one, or else ``validation``.
      data_dir: Where prepared sets lie; see :func:`har_jax.data.sources.prepared.find_or_prepare`.
      on_missing_label: What to do with examples of label -1.
      hold_out: How a part of the training set becomes the test set, where there is none.
      reading: How images are read that are of several sizes.
      encoding: How texts become arrays.

    Raises:
      DataError: if it is not there and cannot be fetched, or has nothing that could be read; if
        there is no such split; if something is said of how to read images that are of one size.
    """
    data = find_or_prepare(name, None if data_dir is None else pathlib.Path(data_dir))
    data = dataclasses.replace(data, test_split=test_split, reading=reading or Reading())
    data.check()
    load = functools.partial(data.load, hold_out or HoldOut(), on_missing_label)
    return Source(data.kind, data.class_names, load, f"{PREFIX}{name}", encoding or Encoding())
