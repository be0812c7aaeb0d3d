"""Data sources by name."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from har_jax.data.examples import Dataset, Examples
from har_jax.data.splits import stratified_split

DIGITS_TEST_SIZE = 600


@dataclasses.dataclass(frozen=True)
class Source:
    """A data source.

    Attributes:
      num_classes: K, known before anything is loaded.
      load: ``seed -> Dataset``; a source with a split of its own ignores the seed.
    """

    num_classes: int
    load: Callable[[int], Dataset]


def _digits(seed: int) -> Dataset:
    """The 1,797 handwritten digits inside scikit-learn: 8x8 pixels in [0, 1], ten classes."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = (raw.images / 16).astype(np.float32)[..., np.newaxis]
    digits = Examples(images, raw.target.astype(np.int32))
    train, test = stratified_split(digits.labels, len(digits) - DIGITS_TEST_SIZE, seed)
    return Dataset(digits.take(train), digits.take(test), tuple("0123456789"))


SOURCES: Mapping[str, Source] = {"digits": Source(num_classes=10, load=_digits)}
