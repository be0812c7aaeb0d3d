"""Tables of a person's own images or texts."""

import csv
import os
import pathlib
import warnings

from har_jax.data.examples import DataError
from har_jax.data.file_names import check_written_name
from har_jax.data.listing import TEST_NAMES, Listing
from har_jax.interruption import checked

_LONGEST = 10**8  # characters of a text


def list_table(table: pathlib.Path, root: pathlib.Path | None) -> Listing:
    """Lists a CSV file with columns ``path`` or ``text``, ``label``, perhaps ``group``, ``split``.

    Args:
      table: The file, in UTF-8, whose first line names the columns.
      root: What relative paths are relative to; by default the folder of the file.

    Raises:
      DataError: if the table lacks a column or has an empty cell other than a text, an unknown
        split, a path without a file, or a file to train on and to test on.
    """
    table = table.resolve()
    root = table.parent if root is None else root.resolve()
    items: dict[str, list[str]] = {}
    labels: dict[str, list[str]] = {}
    groups: dict[str, list[str]] = {}
    csv.field_size_limit(_LONGEST)
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            columns = rows.fieldnames or []
            has_texts = "text" in columns and "path" not in columns
            item = "text" if has_texts else "path"
            if missing := {item, "label"} - set(columns):
                raise DataError(
                    f"{table} has the columns {', '.join(columns) or 'of none'}, and lacks "
                    f"{' and '.join(sorted(missing))}{' (or text)' if item in missing else ''}"
                )
            needed = ("label", *({"path", "group", "split"} & set(columns)))
            for row in checked(rows):
                where = f"line {rows.line_num} of {table}"
                for name in needed:
                    if not (row[name] or "").strip():
                        raise DataError(f"{where} has no {name}")
                split = _split(row.get("split") or "train", where)
                value = (row[item] or "").strip()
                if not has_texts:
                    check_written_name(value)
                if not has_texts and not (root / value).is_file():
                    raise DataError(f"{where}: there is no file {root / value}")
                items.setdefault(split, []).append(value)
                labels.setdefault(split, []).append(row["label"].strip())
                groups.setdefault(split, []).append((row.get("group") or "").strip())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"config.data.table={str(table)!r} cannot be read: {error}") from error
    if "train" not in items:
        raise DataError(f"{table} has no line of the split train")
    if not has_texts:
        _check_files(table, root, items)
    with_groups = groups if "group" in columns else None
    return Listing(None if has_texts else root, items, labels, with_groups)


def _check_files(table: pathlib.Path, root: pathlib.Path, paths: dict[str, list[str]]) -> None:
    """That no file, by whatever path, is in two splits; warns of those that are listed twice."""
    files = {split: [os.path.realpath(root / path) for path in paths[split]] for split in paths}
    if both := set(files["train"]) & set(files.get("test", ())):
        raise DataError(
            f"{table} has {min(both)} in train and in test, and {len(both)} such files in all: "
            "leave each in one of them"
        )
    if again := len(files["train"]) - len(set(files["train"])):
        warnings.warn(
            f"{table} lists {again} files again that it has listed before: models are then judged "
            "by what they have seen, since one may come to be held out and the other not",
            stacklevel=2,
        )


def _split(name: str, where: str) -> str:
    name = name.strip().lower()
    if name == "train":
        return name
    if name in TEST_NAMES:
        return "test"
    raise DataError(f"{where}: the split {name!r} is none of train, {', '.join(TEST_NAMES)}")
