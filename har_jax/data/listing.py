"""Examples by name, of the splits of a person's own data, and the data set they make."""

import dataclasses
import functools
import pathlib
import warnings
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from har_jax.data.encoded import ImageFiles, Reading
from har_jax.data.examples import DataError, Dataset, Examples, Inputs
from har_jax.data.splits import stratified_split
from har_jax.terminal import some

TEST_NAMES = ("test", "val", "valid", "validation")


@dataclasses.dataclass(frozen=True)
class Listing:
    """Images by name, before any of them is read, or texts.

    Attributes:
      root: The folder that paths are relative to; None of texts.
      items: Of every split, ``train`` and perhaps ``test`` and others, the paths, or the texts.
      labels: The names of their classes.
      groups: The names of their groups; None where there are none.
      order: The names of all classes; None for those that occur, sorted.
    """

    root: pathlib.Path | None
    items: Mapping[str, Sequence[str]]
    labels: Mapping[str, Sequence[str]]
    groups: Mapping[str, Sequence[str]] | None = None
    order: tuple[str, ...] | None = None

    @functools.cached_property
    def class_names(self) -> tuple[str, ...]:
        """Of all splits: one map for all."""
        return _names(self.labels) if self.order is None else self.order

    @functools.cached_property
    def group_names(self) -> tuple[str, ...] | None:
        """Of all splits; None where there are no groups."""
        return None if self.groups is None else _names(self.groups)


def to_dataset(listing: Listing, reading: Reading, test_fraction: float, seed: int) -> Dataset:
    """Makes a data set; where the listing has no test split, a part of each class becomes it."""
    parts = {split: to_examples(listing, split, reading) for split in listing.items}
    train = parts["train"]
    if "test" in parts:
        test = parts["test"]
    else:
        size = len(train) - round(test_fraction * len(train))
        if not 0 < size < len(train):
            raise DataError(
                f"config.data.test_fraction={test_fraction} of {len(train)} examples leaves none "
                "to train on, or none to test on"
            )
        kept, held_out = stratified_split(train.labels, size, seed)
        train, test = train.take(kept), train.take(held_out)
    absent = set(range(len(listing.class_names))) - set(train.labels.tolist())
    if absent:
        names = some([listing.class_names[label] for label in sorted(absent)])
        warnings.warn(f"no training example is of class {names}", stacklevel=2)
    others = {name: part for name, part in parts.items() if name not in ("train", "test")}
    return Dataset(train, test, listing.class_names, listing.group_names, others)


def to_examples(listing: Listing, split: str, reading: Reading) -> Examples:
    """One split of a listing."""
    groups = None
    if listing.groups is not None and listing.group_names is not None:
        groups = _ids(listing.groups[split], listing.group_names)
    inputs: Inputs
    if listing.root is None:
        inputs = np.array(listing.items[split], object)
    else:
        inputs = ImageFiles(listing.root, np.array(listing.items[split]), reading)
    return Examples(inputs, _ids(listing.labels[split], listing.class_names), groups)


def _names(by_split: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted({name for names in by_split.values() for name in names}))


def _ids(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    ids = {name: id for id, name in enumerate(known)}
    return np.array([ids[name] for name in names], np.int32)
