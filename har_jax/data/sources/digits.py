"""The handwritten digits that come with scikit-learn."""

import numpy as np

from har_jax.data.examples import Dataset, Examples
from har_jax.data.found import Found
from har_jax.data.sources.source import Source
from har_jax.data.splits import stratified_split

_CLASSES = tuple("0123456789")
_TEST_SIZE = 600


def digits() -> Source:
    """1,797 images of 8x8 pixels in [0, 1], ten classes, 600 of them drawn as a test set."""
    return Source("images", _CLASSES, _load, "digits")


def _load(seed: int) -> Dataset:
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = (raw.images / 16).astype(np.float32)[..., np.newaxis]
    ids = np.array([str(row) for row in range(len(images))])
    examples = Examples(images, raw.target.astype(np.int32), ids=ids)
    train, test = stratified_split(examples.labels, len(examples) - _TEST_SIZE, seed)
    found = Found(dict.fromkeys(("train", "test"), "scikit-learn's digits, split at random"))
    return Dataset(examples.take(train), examples.take(test), _CLASSES, found=found)
