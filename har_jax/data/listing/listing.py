"""Examples by name, of the splits of a person's own data, and the data set they make."""

import collections
import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from har_jax.data.examples import DataError, Dataset, Examples, Inputs
from har_jax.data.found import Found
from har_jax.data.hold_out import HoldOut
from har_jax.data.labels import OnMissing, missing_names
from har_jax.data.reading.encoded import ImageFiles, Reading


@dataclasses.dataclass(frozen=True)
class Listing:
    """Images by name, before any of them is read, or texts.

    Attributes:
      source: The folder or table, for people.
      root: The folder that paths are relative to; None of texts.
      items: Of every split, ``train`` and perhaps ``test`` and others, the paths, or the texts.
      labels: The names of their classes.
      groups: The names of their groups; None where there are none.
      lines: Where in a table each stands; None of folders.
      order: The names of all classes; None for those that occur, sorted.
      found: What the splits are, and what was passed over.
      ids: What each is called; None where that is its path, or nothing.
    """

    source: pathlib.Path
    root: pathlib.Path | None
    items: Mapping[str, Sequence[str]]
    labels: Mapping[str, Sequence[str]]
    groups: Mapping[str, Sequence[str]] | None = None
    lines: Mapping[str, Sequence[int]] | None = None
    order: tuple[str, ...] | None = None
    found: Found = dataclasses.field(default_factory=Found)
    ids: Mapping[str, Sequence[str]] | None = None

    @functools.cached_property
    def class_names(self) -> tuple[str, ...]:
        """Of all splits: one map for all."""
        return _names(self.labels) if self.order is None else self.order

    @functools.cached_property
    def group_names(self) -> tuple[str, ...] | None:
        """Of all splits; None where there are no groups."""
        return None if self.groups is None else _names(self.groups)

    @property
    def kind(self) -> Literal["images", "texts"]:
        return "texts" if self.root is None else "images"

    def place(self, split: str, row: int) -> str:
        """Where an example is, for people."""
        if self.lines is not None:
            return f"line {self.lines[split][row]} of {self.source}"
        return str(self.source / self.items[split][row])


def without_missing_labels(listing: Listing, on_missing: OnMissing) -> Listing:
    """Leaves out what has a label that says that there is none.

    Raises:
      DataError: if there is such a label, and it is not to be skipped or kept.
    """
    missing = missing_names(_names(listing.labels)) if on_missing != "keep" else frozenset()
    if not missing:
        return listing
    rows = {
        split: [row for row, name in enumerate(names) if name in missing]
        for split, names in listing.labels.items()
    }
    counts = collections.Counter(
        listing.labels[split][row] for split, those in rows.items() for row in those
    )
    if on_missing == "stop":
        split = next(split for split, those in rows.items() if those)
        shown = ", ".join(f"{name!r} ({count})" for name, count in counts.most_common())
        raise DataError(
            f"{sum(counts.values())} labels of {listing.source} say that there is none: {shown}; "
            f"the first is of {listing.place(split, rows[split][0])}: leave such examples out with "
            "config.data.on_missing_label=skip, or, if these are names of classes, take "
            "config.data.on_missing_label=keep"
        )
    kept = {
        split: [row for row, name in enumerate(names) if name not in missing]
        for split, names in listing.labels.items()
    }
    of = lambda parts: {split: [parts[split][row] for row in kept[split]] for split in parts}
    left_out = {f"left out: labels {name!r}": count for name, count in counts.most_common()}
    return dataclasses.replace(
        listing,
        items=of(listing.items),
        labels=of(listing.labels),
        groups=None if listing.groups is None else of(listing.groups),
        lines=None if listing.lines is None else of(listing.lines),
        ids=None if listing.ids is None else of(listing.ids),
        found=listing.found.counted(left_out),
    )


def to_dataset(listing: Listing, reading: Reading, hold_out: HoldOut, seed: int) -> Dataset:
    """Makes a data set; where the listing has no test split, a part of each class becomes it."""
    parts = {split: to_examples(listing, split, reading) for split in listing.items}
    train, test, found = parts.pop("train"), parts.pop("test", None), listing.found
    meta = parts.pop("meta", None)
    if test is None:
        train, test, found = hold_out.split(train, seed, found)
    else:
        hold_out.refuse_unread(str(listing.source))
    return Dataset(train, test, listing.class_names, listing.group_names, parts, found, meta)


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
    labels = _ids(listing.labels[split], listing.class_names)
    ids = None if listing.ids is None else np.array(listing.ids[split], object)
    return Examples(inputs, labels, groups, ids=ids)


def _names(by_split: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted({name for names in by_split.values() for name in names}))


def _ids(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    ids = {name: id for id, name in enumerate(known)}
    return np.array([ids[name] for name in names], np.int32)
