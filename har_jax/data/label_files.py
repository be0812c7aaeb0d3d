"""Labels from a file, which take the place of a training set's own."""

import collections
import dataclasses
import hashlib
import os
import pathlib
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from har_jax.data.classes import Classes, class_id
from har_jax.data.examples import DataError
from har_jax.data.labels import missing_names
from har_jax.data.listing.cells import open_table
from har_jax.system.terminal import some

KEY = "data.labels"
IDS = "ids.txt"
"""The ids of a training set in its order, one a line, as runs leave them beside ``labels.npy``."""

_NEEDED = ("id", "label")  # columns, or arrays
_NUMBER = re.compile(r"[0-9]{1,9}")  # which fits into 32 bits
_SAVED = "save arrays id and label, of [n] each, with numpy.savez"


@dataclasses.dataclass(frozen=True)
class LabelFile:
    """Labels of examples by their ids, before it is known of which data.

    Attributes:
      path: Of the file.
      ids: ``m``, all different.
      labels: ``m``: of a table, cells; else all ids or all names of classes.
      places: ``m``, where each is in the file, for people.
      digest: A checksum of what the file holds.
    """

    path: pathlib.Path
    ids: Sequence[str]
    labels: Sequence[int | str]
    places: Sequence[str]
    digest: str

    def __post_init__(self) -> None:
        if not self.ids:
            raise DataError(f"{self._said} has no labels")
        first: dict[str, str] = {}
        for id, place in zip(self.ids, self.places, strict=True):
            if not id:
                raise DataError(f"{place} of {self.path} has no id")
            if first.setdefault(id, place) != place:
                raise DataError(
                    f"{place} of {self.path} has the id {id!r}, as {first[id]} has: leave one"
                )

    @property
    def _said(self) -> str:
        return f"config.{KEY}={str(self.path)!r}"

    def of(self, classes: Classes) -> Mapping[str, int]:
        """The ids of classes that the labels stand for, by the id of the example.

        Numbers are ids, and names are names; cells of a table are names where they are those of
        classes, and else ids.

        Raises:
          DataError: if a label is missing or of no class, or a number is the id of one class and
            the name of another.
        """
        first: dict[int | str, int] = {}
        for row, label in enumerate(self.labels):
            first.setdefault(label, row)
        missing = (missing_names(map(str, first)) | {"-1"}) - set(classes.names)
        if any(str(label) in missing for label in first):
            self._refuse_missing(missing)
        known = {label: self._class_of(label, row, classes) for label, row in first.items()}
        return {id: known[label] for id, label in zip(self.ids, self.labels, strict=True)}

    def _class_of(self, label: int | str, row: int, classes: Classes) -> int:
        names, said = classes.names, f"{self.places[row]} of {self.path}"
        is_cell = self.path.suffix.lower() == ".csv"
        if is_cell and isinstance(label, str) and _NUMBER.fullmatch(label):
            number = int(label)
            if label not in names:
                label = number
            elif number < len(names) and names[number] != label:
                raise DataError(
                    f"{said} names class {label}, which is the name of the class of id "
                    f"{names.index(label)} of {classes.source} and the id of {names[number]!r}: "
                    "save an .npz, whose labels are names as strings or ids as whole numbers"
                )
        return class_id(label, names, said=said, source=classes.source)

    def _refuse_missing(self, missing: frozenset[str] | set[str]) -> NoReturn:
        rows = [row for row, label in enumerate(self.labels) if str(label) in missing]
        shown = some([repr(label) for label in {str(self.labels[row]): None for row in rows}])
        raise DataError(
            f"{len(rows)} labels of {self.path} say that there is none ({shown}), the first in "
            f"{self.places[rows[0]]}, of {self.ids[rows[0]]!r}: give every training example one"
        )


def read_label_file(given: str) -> LabelFile:
    """Reads a file of labels: a table, an ``.npz``, or an ``.npy``.

    A table has columns ``id`` and ``label``, an ``.npz`` arrays of these names, ids being strings
    or whole numbers. An ``.npy`` has labels only, in the order of the ``ids.txt`` beside it.

    Args:
      given: The path.

    Raises:
      DataError: if it is not there, is of another kind, or has an id twice.
    """
    path = pathlib.Path(os.path.expanduser(given))
    kinds = {".csv": _of_table, ".npz": _of_arrays, ".npy": _of_array}
    if path.suffix.lower() not in kinds:
        raise DataError(f"config.{KEY}={given!r} is of no kind that is known: {', '.join(kinds)}")
    if not path.is_file():
        raise DataError(f"config.{KEY}={given!r} is no file")
    return kinds[path.suffix.lower()](path)


def _of_table(path: pathlib.Path) -> LabelFile:
    is_header = lambda names: names.issuperset(_NEEDED)
    ids, labels, places = [], [], []
    with open_table(path, KEY, is_header) as (columns, _, rows):
        names = [name.strip().lower() for name in columns]
        counts = collections.Counter(names)
        if any(counts[name] != 1 for name in _NEEDED):
            raise DataError(
                f"config.{KEY}={str(path)!r} has the columns {some(list(columns)) or 'none'}: its "
                "first line has to name one id and one label"
            )
        at_id, at_label = map(names.index, _NEEDED)
        for line, row in rows:
            ids.append(row[at_id].strip())
            labels.append(row[at_label].strip())
            places.append(f"line {line}")
    return LabelFile(path, ids, labels, places, _digest(path))


def _of_arrays(path: pathlib.Path) -> LabelFile:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays if name in _NEEDED}
            names = list(arrays)
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError, TypeError) as error:
        raise _unreadable(path, error) from error
    if missing := [name for name in _NEEDED if name not in found]:
        raise DataError(
            f"config.{KEY}={str(path)!r} has the arrays {some(names) or 'none'}, and lacks "
            f"{' and '.join(missing)}: {_SAVED}; docs/labels.md has an example"
        )
    ids, labels = found["id"], found["label"]
    if ids.ndim != 1 or ids.dtype.kind not in "iuUS":
        raise DataError(
            f"id of {path} is {ids.dtype}{list(ids.shape)}: strings or whole numbers of [n] are "
            "needed"
        )
    return _of_rows(path, list(map(str, _decoded(path, ids).tolist())), labels, _digest(path))


def _of_array(path: pathlib.Path) -> LabelFile:
    beside = path.with_name(IDS)
    if not beside.is_file():
        raise DataError(
            f"config.{KEY}={str(path)!r} has labels without ids: put it beside the {IDS} of the "
            f"training set whose order it has, which a run leaves beside labels.npy, or {_SAVED}"
        )
    try:
        labels = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise _unreadable(path, error) from error
    try:
        text = beside.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{beside} cannot be read: {error}") from error
    ids = text.removesuffix("\n").split("\n") if text else []
    if labels.shape != (len(ids),):
        raise DataError(
            f"config.{KEY}={str(path)!r} is of shape {list(labels.shape)}, and {beside} has "
            f"{len(ids)} ids: a label for each is needed, in their order"
        )
    return _of_rows(path, ids, labels, _digest(path, beside))


def _of_rows(path: pathlib.Path, ids: list[str], labels: np.ndarray, digest: str) -> LabelFile:
    if labels.ndim != 1 or labels.dtype.kind not in "iuUS":
        nan = labels.dtype.kind == "f" and np.any(rows := np.isnan(labels).ravel())
        row = f"; row {int(np.argmax(rows))} is missing" if nan else ""
        raise DataError(
            f"the labels of {path} are {labels.dtype}{list(labels.shape)}{row}: ids of classes, "
            "whole numbers, or their names, strings, of [n], are needed, one for every example"
        )
    if len(ids) != len(labels):
        raise DataError(f"{path} has {len(ids)} ids for {len(labels)} labels: {_SAVED}")
    places = [f"row {row}" for row in range(len(ids))]
    return LabelFile(path, ids, _decoded(path, labels).tolist(), places, digest)


def _decoded(path: pathlib.Path, array: np.ndarray) -> np.ndarray:
    try:
        return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: pathlib.Path, error: Exception) -> DataError:
    first = (str(error).splitlines() or [""])[0]
    return DataError(
        f"config.{KEY}={str(path)!r} cannot be read ({type(error).__name__}: {first}): {_SAVED}; "
        "numbers and strings only, since nothing is unpickled"
    )


def _digest(*paths: pathlib.Path) -> str:
    sha = hashlib.sha256()
    for path in paths:
        sha.update(path.read_bytes())
    return sha.hexdigest()
