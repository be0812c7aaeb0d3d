"""A person's own images: folders of classes, and tables of paths and labels."""

import csv
import dataclasses
import functools
import os
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from har_jax.data.encoded import ImageFiles, Reading
from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.splits import stratified_split

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)
TEST_NAMES = ("test", "val", "valid", "validation")


@dataclasses.dataclass(frozen=True)
class Listing:
    """Images by name, before any of them is read.

    Attributes:
      root: The folder that paths are relative to.
      paths: Of every split, ``train`` and perhaps ``test`` and others, the paths.
      labels: The names of their classes.
      groups: The names of their groups; None where there are none.
      order: The names of all classes; None for those that occur, sorted.
    """

    root: pathlib.Path
    paths: Mapping[str, Sequence[str]]
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


def list_folder(root: pathlib.Path) -> Listing:
    """Lists ``root/CLASS/...``, or ``root/train/CLASS/...`` and ``root/test/CLASS/...``.

    Files whose names begin with a dot, or are not those of images, are left out. The test set may
    be called ``val``, ``valid`` or ``validation`` as well.

    Raises:
      DataError: if there is no such folder, or no image in it.
    """
    root = root.resolve()
    if not root.is_dir():
        raise DataError(f"config.data.root={str(root)!r} is no folder")
    folders = {"train": root}
    inside = {path.name for path in root.iterdir() if path.is_dir() and path.name[0] != "."}
    if "train" in inside and inside <= {"train", *TEST_NAMES}:  # and not one class of several
        folders["train"] = root / "train"
        tests = [root / name for name in TEST_NAMES if name in inside]
        if len(tests) > 1:
            names = " and ".join(path.name for path in tests)
            raise DataError(f"{root} has {names}, and one can be tested on: rename the other")
        if tests:
            folders["test"] = tests[0]
    paths: dict[str, list[str]] = {split: [] for split in folders}
    labels: dict[str, list[str]] = {split: [] for split in folders}
    for split, folder in folders.items():
        for path in images_in(folder):
            within = path.relative_to(folder)
            if len(within.parts) < 2:
                raise DataError(f"{path} lies in no folder of a class: move it into one")
            paths[split].append(str(path.relative_to(root)))
            labels[split].append(within.parts[0])
        if not paths[split]:
            raise DataError(
                f"there are no images in {folder}: folders of classes are needed, with files named "
                f"{', '.join(sorted(SUFFIXES))}"
            )
    return Listing(root, paths, labels)


def list_table(table: pathlib.Path, root: pathlib.Path | None) -> Listing:
    """Lists a CSV file with columns ``path`` and ``label``, and perhaps ``group`` and ``split``.

    Args:
      table: The file, in UTF-8, whose first line names the columns.
      root: What relative paths are relative to; by default the folder of the file.

    Raises:
      DataError: if the table lacks a column or has an empty cell, an unknown split, a path
        without a file, or a file to train on and to test on.
    """
    table = table.resolve()
    root = table.parent if root is None else root.resolve()
    paths: dict[str, list[str]] = {}
    labels: dict[str, list[str]] = {}
    groups: dict[str, list[str]] = {}
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            columns = rows.fieldnames or []
            if missing := {"path", "label"} - set(columns):
                raise DataError(
                    f"{table} has the columns {', '.join(columns) or 'of none'}, and lacks "
                    f"{' and '.join(sorted(missing))}"
                )
            for row in rows:
                where = f"line {rows.line_num} of {table}"
                for name in ("path", "label", *({"group", "split"} & set(columns))):
                    if not (row[name] or "").strip():
                        raise DataError(f"{where} has no {name}")
                split = _split(row.get("split") or "train", where)
                path = row["path"].strip()
                if not (root / path).is_file():
                    raise DataError(f"{where}: there is no file {root / path}")
                paths.setdefault(split, []).append(path)
                labels.setdefault(split, []).append(row["label"].strip())
                groups.setdefault(split, []).append((row.get("group") or "").strip())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"config.data.table={str(table)!r} cannot be read: {error}") from error
    if "train" not in paths:
        raise DataError(f"{table} has no line of the split train")
    if both := set(paths["train"]) & set(paths.get("test", ())):
        raise DataError(
            f"{table} has {min(both)} in train and in test, and {len(both)} such files in all: "
            "leave each in one of them"
        )
    return Listing(root, paths, labels, groups if "group" in columns else None)


def to_dataset(listing: Listing, reading: Reading, test_fraction: float, seed: int) -> Dataset:
    """Makes a data set; where the listing has no test split, a part of each class becomes it."""
    parts = {split: to_examples(listing, split, reading) for split in listing.paths}
    train = parts["train"]
    if "test" in parts:
        test = parts["test"]
    else:
        size = len(train) - round(test_fraction * len(train))
        if not 0 < size < len(train):
            raise DataError(
                f"config.data.test_fraction={test_fraction} of {len(train)} images in "
                f"{listing.root} leaves none to train on, or none to test on"
            )
        kept, held_out = stratified_split(train.labels, size, seed)
        train, test = train.take(kept), train.take(held_out)
    absent = set(range(len(listing.class_names))) - set(train.labels.tolist())
    if absent:
        names = ", ".join(listing.class_names[label] for label in sorted(absent))
        warnings.warn(f"no training example is of class {names}", stacklevel=2)
    others = {name: part for name, part in parts.items() if name not in ("train", "test")}
    return Dataset(train, test, listing.class_names, listing.group_names, others)


def to_examples(listing: Listing, split: str, reading: Reading) -> Examples:
    """The images of one split of a listing."""
    groups = None
    if listing.groups is not None and listing.group_names is not None:
        groups = _ids(listing.groups[split], listing.group_names)
    images = ImageFiles(listing.root, np.array(listing.paths[split]), reading)
    return Examples(images, _ids(listing.labels[split], listing.class_names), groups)


def images_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """The image files in a folder and in those below, sorted; hidden ones are left out.

    Raises:
      DataError: if a folder cannot be read, or a name is no Unicode.
    """

    def walk(place: pathlib.Path, above: frozenset[str]) -> Iterator[pathlib.Path]:
        real = os.path.realpath(place)
        if real in above:  # a link that leads back
            return
        for entry in sorted(place.iterdir()):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from walk(entry, above | {real})
            elif entry.suffix.lower() in SUFFIXES:
                yield entry

    try:
        found = list(walk(folder, frozenset()))
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
    for path in found:
        try:
            str(path).encode()
        except UnicodeEncodeError as error:
            raise DataError(f"the name {str(path)!r} is not UTF-8: rename it") from error
    return found


def _split(name: str, where: str) -> str:
    name = name.strip().lower()
    if name == "train":
        return name
    if name in TEST_NAMES:
        return "test"
    raise DataError(f"{where}: the split {name!r} is none of train, {', '.join(TEST_NAMES)}")


def _names(by_split: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted({name for names in by_split.values() for name in names}))


def _ids(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    ids = {name: id for id, name in enumerate(known)}
    return np.array([ids[name] for name in names], np.int32)
