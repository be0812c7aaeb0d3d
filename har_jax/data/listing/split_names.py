"""What folders and cells of splits are called: train, test, validation, in usual spellings."""

import re
from collections.abc import Iterable
from typing import Literal

from har_jax.data.examples import DataError

Split = Literal["train", "test", "validation", "meta"]

SPELLINGS: dict[Split, tuple[str, ...]] = {
    "train": ("train", "training", "trn"),
    "test": ("test", "testing", "tst"),
    "validation": (
        "validation", "val", "valid", "validate", "dev", "development", "eval", "evaluation",
        "heldout", "holdout",
    ),
    "meta": ("meta",),
}  # fmt: skip
_BY_SPELLING = {spelling: split for split, names in SPELLINGS.items() for spelling in names}
_BESIDE = frozenset(
    ("set", "data", "dataset", "image", "images", "imgs", "split", "part", "folder")
)


def split_of(name: str) -> Split | None:
    """The split that is usually called so, as ``Training``, ``test_set`` and ``val2017`` are.

    Example:
      >>> [split_of(name) for name in ("Train", "dev-set", "test_images", "trains", "test_b")]
      ['train', 'validation', 'test', None, None]
    """
    words = [word for word in _words(name) if word not in _BESIDE]
    return _BY_SPELLING.get("".join(words)) if words else None


def resembles_split(name: str) -> bool:
    """Whether a word of a name is a split's, though the whole is not, as in ``my_train_v2``."""
    return any(word in _BY_SPELLING for word in _words(name))


def assign_splits(names: Iterable[str], source: str) -> dict[str, str]:
    """Which of the names of splits is that of each split.

    What is called as a validation set is the test set, where nothing is called as that.

    Args:
      names: Different ones, that :func:`split_of` knows.
      source: Whose they are, for errors.

    Raises:
      DataError: if there is none to train on, or two are of one split.
    """
    splits: dict[str, str] = {}
    for name in names:
        split = split_of(name)
        assert split is not None
        if split in splits:
            raise DataError(
                f"{source} has {splits[split]!r} and {name!r}, and both are called as a set for "
                f"{split}: join them, or rename the one that is not to be read"
            )
        splits[split] = name
    if "train" not in splits:
        raise DataError(f"{source} has no split called train, only {', '.join(names) or 'none'}")
    if "test" not in splits and "validation" in splits:
        splits["test"] = splits.pop("validation")
    return splits


def _words(name: str) -> list[str]:
    parts = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    words = re.findall(r"[^\W\d_]+", parts)
    return [re.sub(r"(?<=.)(set|data)$", "", word) or word for word in words]
