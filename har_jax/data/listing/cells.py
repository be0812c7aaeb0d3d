"""Tables as they are written: cells divided by commas or other marks, below a line of columns."""

import contextlib
import csv
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from har_jax.data.examples import DataError
from har_jax.system.interruption import checked
from har_jax.system.terminal import some

_LONGEST = 10**8  # characters of a text


class Table(NamedTuple):
    """A table that is being read.

    Attributes:
      columns: As its first line writes them.
      delimiter: The mark between cells.
      rows: The number of the line that each row ends on, and its cells, as many as columns.
    """

    columns: Sequence[str]
    delimiter: str
    rows: Iterator[tuple[int, list[str]]]


@contextlib.contextmanager
def open_table(
    path: pathlib.Path, key: str, is_header: Callable[[set[str]], bool]
) -> Iterator[Table]:
    """Opens a CSV file, which is read as its rows are asked for.

    Args:
      path: The file, in UTF-8, whose first line names the columns.
      key: The config key that names it, for errors.
      is_header: Whether names, in small letters, are those of columns: cells are divided by the
        first mark with which those of the first line are, or else by commas.

    Raises:
      DataError: if it cannot be read, or a row has more or fewer cells than there are columns, or
        is the first line again.
    """
    csv.field_size_limit(_LONGEST)
    line = 0

    def whole(rows: Iterator[list[str]], columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        nonlocal line
        for row in checked(rows):
            line = reader.line_num
            if not row:
                continue
            where = f"line {line} of {path}"
            if len(row) != len(columns):
                raise DataError(_torn(where, row, columns))
            if row == columns:
                raise DataError(f"{where} is the header again: remove it")
            yield line, row

    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            delimiter = _delimiter(file.readline(), is_header)
            file.seek(0)
            reader = csv.reader(file, strict=True, delimiter=delimiter)
            columns, line = next(reader, []), reader.line_num
            yield Table(columns, delimiter, whole(reader, columns))
    except csv.Error as error:
        raise DataError(
            f"the row that begins at line {line + 1} of {path} cannot be read ({error}): write a "
            "cell that has a comma, a line break or a quotation mark in quotation marks, and those "
            "within it twice"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"config.{key}={str(path)!r} cannot be read: {error}: save it as CSV in UTF-8, "
            "which spreadsheets offer by that name"
        ) from error
    except OSError as error:
        raise DataError(f"config.{key}={str(path)!r} cannot be read: {error}") from error


def _delimiter(header: str, is_header: Callable[[set[str]], bool]) -> str:
    """The comma, or another mark that makes of the first line what it has to be."""
    for mark in (",", ";", "\t", "|"):
        if is_header({name.strip().strip('"').lower() for name in header.split(mark)}):
            return mark
    return ","


def _torn(where: str, row: Sequence[str], columns: Sequence[str]) -> str:
    remedy = "fill up the row"
    if len(row) > len(columns):
        remedy = "write cells that have a comma in quotation marks"
    return (
        f"{where} has {len(row)} cells for {len(columns)} columns ({some(columns)}), the last of "
        f"which are {some([repr(cell[:40]) for cell in row[-2:]])}: {remedy}"
    )
