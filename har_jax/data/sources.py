"""Data sources by name: ``digits``, ``tfds:NAME``, own ``folder`` or ``csv``, ``webvision``."""

import dataclasses
import functools
import os
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from har_jax.data import folders, listing, prepared, tables, webvision
from har_jax.data.encoded import Reading
from har_jax.data.examples import Dataset, Examples
from har_jax.data.found import Found
from har_jax.data.hold_out import HoldOut
from har_jax.data.labels import OnMissing
from har_jax.data.splits import stratified_split
from har_jax.data.texts import Encoding

DIGITS_TEST_SIZE = 600
TFDS = "tfds:"
Kind = Literal["images", "texts"]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a source's data are, and how they are read; each source reads what is of it.

    Attributes:
      data_dir: Of TFDS; see :func:`har_jax.data.prepared.find_or_prepare`.
      root: The folder of images, or what a table's paths are relative to.
      has_splits: Whether the folders in it are splits; see
        :func:`har_jax.data.folders.list_folder`.
      table: The CSV file.
      subset: Of WebVision.
      imagenet: ImageNet's validation images, to test WebVision's classes on too: a folder with
        one for each synset, or ``tfds:NAME``.
      reading: How image files are read.
      encoding: How texts become arrays.
      hold_out: How a part of the training set becomes the test set, where no split says.
      on_missing_label: What to do with labels that say that there is none.
    """

    data_dir: pathlib.Path | None = None
    root: pathlib.Path | None = None
    has_splits: bool | None = None
    table: pathlib.Path | None = None
    subset: str = "mini"
    imagenet: str | None = None
    reading: Reading = dataclasses.field(default_factory=Reading)
    encoding: Encoding = dataclasses.field(default_factory=Encoding)
    hold_out: HoldOut = dataclasses.field(default_factory=HoldOut)
    on_missing_label: OnMissing = "stop"


@dataclasses.dataclass(frozen=True)
class Source:
    """A data source that is there to be loaded.

    Attributes:
      kind: What its examples are, known before anything is loaded, as are
      class_names: ``K`` names.
      load: ``seed -> Dataset``; a source with a split of its own ignores the seed.
    """

    kind: Kind
    class_names: tuple[str, ...]
    load: Callable[[int], Dataset]


def is_known(name: str) -> bool:
    """Whether a source can have this name."""
    if name.startswith(TFDS):
        return len(name) > len(TFDS)
    return name in ("digits", "folder", "csv", "webvision")


def open_source(name: str, place: Place | None = None) -> Source:
    """Finds a source, which takes little time where it is on this machine.

    Args:
      name: ``digits``, ``folder``, ``csv``, ``webvision``, or ``tfds:NAME[/CONFIG][:VERSION]``.
      place: Where it is.

    Raises:
      DataError: if it is not there and cannot be fetched.
    """
    place = place or Place()
    if name == "digits":
        return Source("images", tuple("0123456789"), _digits)
    if name == "webvision":
        return _webvision(place)
    if name == "csv":
        assert place.table is not None
        return _listed(tables.list_table(place.table, place.root), place)
    if name == "folder":
        assert place.root is not None
        return _listed(folders.list_folder(place.root, place.has_splits), place)
    data = prepared.find_or_prepare(name.removeprefix(TFDS), place.data_dir)
    data.check()
    load = functools.partial(data.load, place.hold_out, place.on_missing_label)
    return Source(data.kind, data.class_names, load)


def _listed(listed: listing.Listing, place: Place) -> Source:
    listed = listing.without_missing_labels(listed, place.on_missing_label)
    load = functools.partial(listing.to_dataset, listed, place.reading, place.hold_out)
    return Source("texts" if listed.root is None else "images", listed.class_names, load)


def _webvision(place: Place) -> Source:
    assert place.root is not None
    own = _listed(webvision.list_webvision(place.root, place.subset), place)
    if place.imagenet is None:
        return own
    images = _imagenet(place.imagenet, own.class_names, place)

    def load(seed: int) -> Dataset:
        imagenet = images()
        if absent := len(own.class_names) - len(np.unique(imagenet.labels)):
            warnings.warn(
                f"{place.imagenet} has no image of {absent} of {len(own.class_names)} classes",
                stacklevel=2,
            )
        return dataclasses.replace(own.load(seed), others={webvision.IMAGENET: imagenet})

    return dataclasses.replace(own, load=load)


def _imagenet(where: str, classes: Sequence[str], place: Place) -> Callable[[], Examples]:
    """ImageNet's validation images of a listing's classes, to be loaded when it is."""
    if where.startswith(TFDS):
        data = prepared.find_or_prepare(where.removeprefix(TFDS), place.data_dir)
        return lambda: data.find_images("validation", classes, place.reading)
    found = webvision.list_imagenet(pathlib.Path(os.path.expanduser(where)), classes)
    return lambda: listing.to_examples(found, "test", place.reading)


def _digits(seed: int) -> Dataset:
    """The 1,797 handwritten digits inside scikit-learn: 8x8 pixels in [0, 1], ten classes."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = (raw.images / 16).astype(np.float32)[..., np.newaxis]
    digits = Examples(images, raw.target.astype(np.int32))
    train, test = stratified_split(digits.labels, len(digits) - DIGITS_TEST_SIZE, seed)
    found = Found(dict.fromkeys(("train", "test"), "scikit-learn's digits, split at random"))
    return Dataset(digits.take(train), digits.take(test), tuple("0123456789"), found=found)
