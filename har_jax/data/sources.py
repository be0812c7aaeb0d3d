"""Data sources by name: ``digits``, and ``tfds:NAME`` for TensorFlow Datasets."""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np

from har_jax.data import prepared
from har_jax.data.examples import Dataset, Examples
from har_jax.data.splits import stratified_split

DIGITS_TEST_SIZE = 600
TFDS = "tfds:"


@dataclasses.dataclass(frozen=True)
class Source:
    """A data source that is there to be loaded.

    Attributes:
      class_names: ``K`` names, known before anything is loaded.
      load: ``seed -> Dataset``; a source with a split of its own ignores the seed.
    """

    class_names: tuple[str, ...]
    load: Callable[[int], Dataset]


def is_known(name: str) -> bool:
    """Whether a source can have this name."""
    return name == "digits" or (name.startswith(TFDS) and len(name) > len(TFDS))


def open_source(name: str, data_dir: pathlib.Path | None = None) -> Source:
    """Finds a source, which takes no time where it is on this machine.

    Args:
      name: ``digits``, or ``tfds:NAME[/CONFIG][:VERSION]``.
      data_dir: Where TFDS keeps its data; see :func:`har_jax.data.prepared.find_or_prepare`.

    Raises:
      DataError: if it is not there and cannot be fetched.
    """
    if name == "digits":
        return Source(tuple("0123456789"), _digits)
    data = prepared.find_or_prepare(name.removeprefix(TFDS), data_dir)
    return Source(data.class_names, lambda _: data.load())


def _digits(seed: int) -> Dataset:
    """The 1,797 handwritten digits inside scikit-learn: 8x8 pixels in [0, 1], ten classes."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = (raw.images / 16).astype(np.float32)[..., np.newaxis]
    digits = Examples(images, raw.target.astype(np.int32))
    train, test = stratified_split(digits.labels, len(digits) - DIGITS_TEST_SIZE, seed)
    return Dataset(digits.take(train), digits.take(test), tuple("0123456789"))
