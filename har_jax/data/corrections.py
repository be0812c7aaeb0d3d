"""Corrections of some labels that are trained on, by a person: ``report/relabel.csv``, edited."""

import collections
import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from har_jax.data.classes import Classes
from har_jax.data.examples import DataError, Examples
from har_jax.data.label_files import LabelFile
from har_jax.data.listing.cells import open_table
from har_jax.data.reading.encoded import EncodedImages
from har_jax.data.relabelling import ids_of
from har_jax.system.terminal import some

KEY = "data.relabel"
ID, GIVEN, SUGGESTION, DIGEST = "id", "given_label", "suggestion", "digest"
"""Columns of the file; the last is there where an id is no name but the place in the order."""

_NEEDED = (ID, GIVEN, SUGGESTION)


@dataclasses.dataclass(frozen=True)
class Corrections:
    """What a person would have other labels for, before it is known of which data.

    Attributes:
      suggestions: Cells, by id.
      given: Cells, by id: the labels that were there.
      digests: By id, of the examples; None where ids are names.
    """

    suggestions: LabelFile
    given: LabelFile
    digests: Mapping[str, str] | None

    @property
    def path(self) -> pathlib.Path:
        """Of the file."""
        return self.suggestions.path

    @property
    def digest(self) -> str:
        """A checksum of what the file holds."""
        return self.suggestions.digest

    def of(self, classes: Classes) -> "Mapping[str, Correction]":
        """Both labels of every id, as ids of classes.

        Raises:
          DataError: if a label is missing, or of no class.
        """
        given, suggested = self.given.of(classes), self.suggestions.of(classes)
        places = dict(zip(self.given.ids, self.given.places, strict=True))
        return {id: Correction(given[id], suggested[id], places[id]) for id in suggested}


class Correction(NamedTuple):
    """One label: what it was and what it is to be, as ids of classes, and where that is said."""

    given: int
    suggestion: int
    place: str


class Corrected(NamedTuple):
    """What became of the corrections of a file.

    Attributes:
      path: Of the file.
      rows: ``[c]``, the training examples whose labels are others now.
      elsewhere: How many corrections are of examples that are not trained on.
    """

    path: pathlib.Path
    rows: Int[np.ndarray, " c"]
    elsewhere: int


def names_of(train: Examples) -> Sequence[str] | None:
    """The ids of examples, where each has one of its own that a table can hold as it is."""
    ids = ids_of(train)
    if ids is None or len(set(ids)) < len(ids):
        return None
    plain = lambda id: id and id == id.strip() and len(id.splitlines()) == 1 and id.isprintable()
    return ids if all(map(plain, ids)) else None


def digests_of(train: Examples, rows: Sequence[int]) -> list[str]:
    """A checksum of each of some examples: of its pixels or words, or of the name of its file."""
    inputs = train.inputs
    if isinstance(inputs, EncodedImages):
        names = inputs.names
        contents = [names[row].encode("utf-8", "surrogatepass") for row in rows]
    elif (texts := train.texts) is not None or inputs[:0].dtype == object:
        words = inputs if texts is None else texts
        contents = [str(words[row]).encode("utf-8", "surrogatepass") for row in rows]
    else:
        contents = [np.ascontiguousarray(inputs[row]).tobytes() for row in rows]
    return [hashlib.sha256(content).hexdigest()[:12] for content in contents]


def read_corrections(given: str) -> Corrections:
    """Reads a table as the report writes it; further columns are left unread.

    Args:
      given: The path.

    Raises:
      DataError: if it is not there or no such table, has an id twice, or lacks a suggestion.
    """
    path, said = pathlib.Path(os.path.expanduser(given)), f"config.{KEY}={given!r}"
    if not path.is_file():
        raise DataError(f"{said} is no file")
    cells: dict[str, list[str]] = {name: [] for name in (*_NEEDED, DIGEST)}
    places = []
    with open_table(path, KEY, lambda names: names.issuperset(_NEEDED)) as (columns, _, rows):
        names = [name.strip().lower() for name in columns]
        counts = collections.Counter(names)
        if any(counts[name] != 1 for name in _NEEDED) or counts[DIGEST] > 1:
            raise DataError(
                f"{said} has the columns {some(list(columns)) or 'none'}: its first line has to "
                f"name one {', one '.join(_NEEDED)}, as the relabel.csv of a report does"
            )
        at = {name: names.index(name) for name in cells if counts[name]}
        for line, row in rows:
            for name, column in at.items():
                cells[name].append(row[column].strip())
            places.append(f"line {line}")
            if not cells[SUGGESTION][-1]:
                raise DataError(
                    f"{places[-1]} of {path} suggests no class: write one, or delete the line to "
                    "keep the label"
                )
    if not places:
        raise DataError(
            f"{said} has no lines below its first: keep some of those of relabel.csv in it, or "
            f"leave {KEY} out"
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    labels = lambda name: LabelFile(path, cells[ID], cells[name], places, digest)
    digests = dict(zip(cells[ID], cells[DIGEST], strict=True)) if DIGEST in at else None
    return Corrections(labels(SUGGESTION), labels(GIVEN), digests)


def corrected(
    train: Examples,
    others: Sequence[Examples],
    corrections: Corrections,
    wanted: Mapping[str, Correction],
    class_names: Sequence[str],
) -> tuple[Examples, Corrected]:
    """Gives training examples the labels that a person wants for them.

    Args:
      train: What is trained on, with the labels that there are.
      others: All that a source has, corrections of which are left out and counted.
      corrections: As read.
      wanted: As :meth:`Corrections.of` gives them.
      class_names: ``K``.

    Returns:
      The examples, and what became of the corrections.

    Raises:
      DataError: if a correction is of no example, of one whose content is another, or of one whose
        label is not what it was when the file was made.
    """
    row_of, names = _rows(train, others, corrections, wanted), class_names
    for id, row in row_of.items():
        (given, _, place), now = wanted[id], int(train.labels[row])
        if given != now:
            raise DataError(
                f"{place} of {corrections.path} says that the label of {id!r} is {names[given]!r}, "
                f"and it is {names[now]!r}: the file was made for other data, another seed's noise "
                "or labels that are corrected already: make it anew"
            )
    labels = train.labels.copy()
    rows = np.fromiter(row_of.values(), np.int64, len(row_of))
    labels[rows] = [wanted[id].suggestion for id in row_of]
    changed = np.flatnonzero(labels != train.labels)
    found = Corrected(corrections.path, changed, len(wanted) - len(row_of))
    return dataclasses.replace(train, labels=labels), found


def _rows(
    train: Examples,
    others: Sequence[Examples],
    corrections: Corrections,
    wanted: Mapping[str, Correction],
) -> dict[str, int]:
    """The training example of each correction that is of one."""
    if corrections.digests is not None:
        return _rows_by_place(train, corrections.digests, wanted, corrections.path)
    names = names_of(train)
    if names is None:
        raise DataError(
            f"config.{KEY}={str(corrections.path)!r} has no column {DIGEST}, and the training "
            "examples have no ids of their own: take the relabel.csv of a report of these data"
        )
    rows = {name: row for row, name in enumerate(names)}
    known = {id for part in others for id in ids_of(part) or ()}
    for id, (_, _, place) in wanted.items():
        if id not in rows and id not in known:
            raise DataError(
                f"{place} of {corrections.path} has the id {id!r}, which no example has, where "
                f"they are such as {names[0]!r}: delete the line, or see whether it was made for "
                "other data"
            )
    return {id: rows[id] for id in wanted if id in rows}


def _rows_by_place(
    train: Examples,
    digests: Mapping[str, str],
    wanted: Mapping[str, Correction],
    path: pathlib.Path,
) -> dict[str, int]:
    row_of = {}
    for id, (_, _, place) in wanted.items():
        row = int(id) if id.isascii() and id.isdecimal() and len(id) < 10 else -1
        if not 0 <= row < len(train):
            raise DataError(
                f"{place} of {path} has the id {id!r}, where ids are places in the order of the "
                f"{len(train)} training examples, from 0 on: delete the line, or see whether it "
                "was made for other data"
            )
        row_of[id] = row
    found = digests_of(train, list(row_of.values()))
    for id, digest in zip(row_of, found, strict=True):
        if digest != digests[id]:
            raise DataError(
                f"{wanted[id].place} of {path} is of an example whose digest is {digests[id]!r}, "
                f"and that of training example {id} is {digest!r}: the file was made for other "
                "data, another seed or another order: make it anew"
            )
    return row_of
