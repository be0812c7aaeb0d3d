"""WebVision, and ImageNet's validation images as a further test set."""

import dataclasses
import os
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import numpy as np

from har_jax.data.examples import Dataset, Examples
from har_jax.data.listing import webvision as lists
from har_jax.data.listing.listing import to_examples
from har_jax.data.reading.encoded import Reading
from har_jax.data.sources.listed import listed
from har_jax.data.sources.prepared import find_or_prepare
from har_jax.data.sources.source import Source
from har_jax.data.sources.tfds import PREFIX
from har_jax.options import Option


def webvision(
    *,
    root: Annotated[
        str | os.PathLike[str],
        Option("the folder with info, google, flickr and val_images_256", place=True),
    ],
    subset: Annotated[
        Literal["mini", "google", "full"],
        Option("the first 50 classes of Google's part, all of that, or all that there is"),
    ] = "mini",
    imagenet: Annotated[
        str | None,
        Option("to test on too: ImageNet's validation images, a folder by synset, or tfds:NAME"),
    ] = None,
    reading: Reading | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Source:
    """WebVision 1.0, tested on its validation set.

    Args:
      root: As it is distributed.
      subset: Which part is trained on.
      imagenet: A further test set, of the same classes.
      reading: How image files are read.
      data_dir: Of TFDS.

    Raises:
      DataError: if something of it is not there.
    """
    reading = reading or Reading()
    found = lists.list_webvision(pathlib.Path(os.path.expanduser(root)), subset)
    own = listed(found, "webvision", reading=reading)
    if imagenet is None:
        return own
    images = _imagenet(imagenet, own.class_names, reading, data_dir)

    def load(seed: int) -> Dataset:
        examples = images()
        if absent := len(own.class_names) - len(np.unique(examples.labels)):
            warnings.warn(
                f"{imagenet} has no image of {absent} of {len(own.class_names)} classes",
                stacklevel=2,
            )
        return dataclasses.replace(own.load(seed), others={lists.IMAGENET: examples})

    return dataclasses.replace(own, load=load)


def _imagenet(
    where: str,
    classes: Sequence[str],
    reading: Reading,
    data_dir: str | os.PathLike[str] | None,
) -> Callable[[], Examples]:
    """ImageNet's validation images of a listing's classes, to be loaded when it is."""
    if where.startswith(PREFIX):
        folder = None if data_dir is None else pathlib.Path(data_dir)
        data = find_or_prepare(where.removeprefix(PREFIX), folder)
        return lambda: data.find_images("validation", classes, reading)
    found = lists.list_imagenet(pathlib.Path(os.path.expanduser(where)), classes)
    return lambda: to_examples(found, "test", reading)
