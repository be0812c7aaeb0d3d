"""Tables of a person's own images or texts."""

import collections
import csv
import difflib
import os
import pathlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from har_jax.data.examples import DataError
from har_jax.data.found import Found
from har_jax.data.listing.cells import open_table
from har_jax.data.listing.file_names import check_written_name
from har_jax.data.listing.listing import Listing
from har_jax.data.listing.split_names import SPELLINGS, assign_splits, split_of
from har_jax.system.terminal import some

_READ = ("path", "text", "label", "group", "split", "id")
_MAY_BE_EMPTY = ("text", "label", "id")

_Cells = dict[str, dict[str, list[Any]]]


def list_table(table: pathlib.Path, root: pathlib.Path | None) -> Listing:
    """Lists a CSV file with columns ``path`` or ``text``, ``label``, perhaps ``group``, ``split``.

    Texts may have a column ``id``, by which labels of a file are joined; images have their paths.

    Args:
      table: The file, in UTF-8, whose first line names the columns.
      root: What relative paths are relative to; by default the folder of the file.

    Raises:
      DataError: if the table lacks a column or has one twice; if a row has more or fewer cells than
        there are columns, an empty cell other than a text or a label, an unknown split, a path
        without a file, or a path that had another label before.

    Warns:
      UserWarning: if a column that is not read is called nearly as one that would be.
    """
    table = table.resolve()
    root = table.parent if root is None else root.resolve()
    with open_table(table, "data.table", _is_header) as (columns, delimiter, rows):
        read = _columns(table, columns)
        cells: _Cells = {name: collections.defaultdict(list) for name in (*read, "line")}
        unread: dict[str, set[str]] = {
            name: set() for column, name in enumerate(columns) if column not in read.values()
        }
        labelled: dict[str, tuple[str, int]] = {}
        for line, row in rows:
            of_row = {name: row[column].strip() for name, column in read.items()}
            _check_row(of_row, f"line {line} of {table}")
            if "path" in read:
                _check_file(root, of_row, line, table, labelled)
            for name, values in unread.items():
                if len(values) <= len(SPELLINGS):
                    values.add(row[columns.index(name)])
            split = of_row.get("split", "train").lower()
            for name, value in of_row.items():
                cells[name][split].append(value)
            cells["line"][split].append(line)
    if "text" in read:
        _check_texts(table, cells, delimiter, len(columns), read)
    if "split" not in read:
        _warn_of_splits(table, unread)
    splits = assign_splits(cells["line"], str(table))
    by_split = {
        name: {split: values[written] for split, written in splits.items()}
        for name, values in cells.items()
    }
    origin = lambda written: f"lines of the split {written!r}" if "split" in read else "all lines"
    found = Found({split: origin(written) for split, written in splits.items()})
    return Listing(
        source=table,
        root=root if "path" in read else None,
        items=by_split["path" if "path" in read else "text"],
        labels=by_split["label"],
        groups=by_split.get("group"),
        lines=by_split["line"],
        ids=by_split.get("id"),
        found=found.counted(
            {
                f"left out: columns ({some(list(unread))})": len(unread),
                "texts of several lines": _of_several_lines(by_split.get("text", {})),
                "empty texts": sum(texts.count("") for texts in by_split.get("text", {}).values()),
            }
        ),
    )


def _is_header(names: set[str]) -> bool:
    return "label" in names and bool(names & {"path", "text"})


def _of_several_lines(texts: Mapping[str, Sequence[str]]) -> int:
    return sum("\n" in text for of_split in texts.values() for text in of_split)


def _check_texts(
    table: pathlib.Path, cells: _Cells, delimiter: str, width: int, read: Mapping[str, int]
) -> None:
    """That no text has swallowed rows, for want of a quotation mark that closes it."""
    labels = {label for of_split in cells["label"].values() for label in of_split}
    for split, texts in cells["text"].items():
        for text, last in zip(texts, cells["line"][split], strict=True):
            within = text.splitlines()[1:-1]
            for line in within:
                row = next(csv.reader([line], delimiter=delimiter), [])
                if len(row) == width and row[read["label"]].strip() in labels:
                    raise DataError(
                        f"the text that ends on line {last} of {table} has a line that is a row by "
                        f"itself, {line[:60]!r}: a quotation mark that is not closed before may "
                        "have joined them; write quotation marks within a cell twice"
                    )


def _warn_of_splits(table: pathlib.Path, unread: Mapping[str, set[str]]) -> None:
    for name, values in unread.items():
        if len(values) > 1 and all(map(split_of, values)):
            warnings.warn(
                f"{table} has a column {name!r} whose cells are {some(sorted(values))}, and which "
                "is not read: rename it to split if it is that",
                stacklevel=3,
            )


def _columns(table: pathlib.Path, written: Sequence[str]) -> dict[str, int]:
    """Which column has what is read."""
    names = [name.strip().lower() for name in written]
    shown = some(list(map(repr, written))) or "none"
    item = "path" if "path" in names else "text"
    wanted = [name for name in _READ if name != "id" or item == "text"]
    for name in wanted:
        if names.count(name) > 1:
            raise DataError(f"{table} has several columns called {name}: {shown}; leave one")
    if missing := [name for name in (item, "label") if name not in names]:
        if item in missing:
            missing[missing.index(item)] = "path (or text)"
        raise DataError(
            f"{table} has the columns {shown}, and lacks {' and '.join(missing)}: its first line "
            "has to name its columns so"
        )
    read = {name: names.index(name) for name in wanted if name in names and name != "text"}
    if item == "text":
        read["text"] = names.index("text")
    for name in set(names) - set(read):
        near = difflib.get_close_matches(name, {"group", "split"} - set(read), n=1, cutoff=0.75)
        if near:
            warnings.warn(
                f"{table} has a column {name!r}, which is not read: rename it if it is to be "
                f"{near[0]!r}",
                stacklevel=3,
            )
    return read


def _check_row(row: Mapping[str, str], where: str) -> None:
    for name, value in row.items():
        if not value and name not in _MAY_BE_EMPTY:
            raise DataError(f"{where} has no {name}")
        if name != "text" and len(value.splitlines()) > 1:
            raise DataError(
                f"{where} has a {name} of several lines, {value[:40]!r}: a quotation mark is "
                "missing, or too many"
            )
    if "split" in row and split_of(row["split"]) is None:
        known = ", ".join(name for names in SPELLINGS.values() for name in names)
        raise DataError(f"{where}: the split {row['split']!r} is none of {known}")


def _check_file(
    root: pathlib.Path,
    row: Mapping[str, str],
    line: int,
    table: pathlib.Path,
    labelled: dict[str, tuple[str, int]],
) -> None:
    """That a file is there, and has the label that it had where it was named before."""
    where, path, label = f"line {line} of {table}", row["path"], row["label"]
    check_written_name(path)
    file = os.path.normpath(os.path.join(root, path))
    if not os.path.isfile(file):
        raise DataError(f"{where}: there is no file {file}")
    before, first = labelled.setdefault(file, (label, line))
    if before != label:
        raise DataError(
            f"{where} labels {path} {label!r}, and line {first} labels it {before!r}: leave one"
        )
