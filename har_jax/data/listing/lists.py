"""Lists of image files, as benchmarks are published: ``path id`` on every line."""

import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from har_jax.data.examples import DataError
from har_jax.data.found import Found
from har_jax.data.listing.file_names import check_written_name
from har_jax.data.listing.listing import Listing
from har_jax.data.listing.split_names import assign_splits
from har_jax.system.interruption import checked

_ID = re.compile(r"[0-9]{1,9}")  # which fits into 32 bits


class Entry(NamedTuple):
    """A line of a list.

    Attributes:
      line: Its number, from 1 on.
      path: Of an image.
      label: The id of its class.
    """

    line: int
    path: str
    label: int


def list_lists(
    root: pathlib.Path, lists: Mapping[str, str], class_list: str | None = None
) -> Listing:
    """Lists the images that are named in a file for each split.

    A list is a file in UTF-8 whose lines are the path of an image, a blank and the id of its class,
    from 0 on; paths may have blanks. Of every list the first image is looked for, so that a wrong
    root is known at once; others when the data are loaded.

    Without names of classes there are as many as the greatest id says, called by their ids. An id
    that no line has is a class without examples.

    Args:
      root: What relative paths are relative to, of images and of lists.
      lists: The list of every split, ``train`` and perhaps ``test``, ``validation`` and ``meta``.
        What is called as a validation set is the test set where there is no other, and a further
        test set where there is.
      class_list: The names of classes, one a line, in the order of their ids.

    Raises:
      DataError: if a list is not there, has no lines, a line that is none, an id beyond the classes
        or a path that had another label before, or if its first image is not there; if most ids up
        to the greatest are on no line, and no names say that they are classes.
    """
    if not root.is_dir():
        raise DataError(f"config.data.root={str(root)!r} is no folder")
    root = root.resolve()
    names = None if class_list is None else _names(_find(root, "class_list", class_list))
    files = {split: _find(root, f"{split}_list", given) for split, given in lists.items()}
    entries = {split: _images(root, file, names) for split, file in files.items()}
    _check_labels(root, files, entries)
    if names is None:
        names = _ids({entry.label for of_split in entries.values() for entry in of_split})
    splits = assign_splits(entries, "the lists")
    return Listing(
        root,
        root,
        {split: [entry.path for entry in entries[given]] for split, given in splits.items()},
        {
            split: [names[entry.label] for entry in entries[given]]
            for split, given in splits.items()
        },
        order=names,
        found=Found({split: f"the list {files[given].name}" for split, given in splits.items()}),
    )


def read_entries(path: pathlib.Path, num_classes: int | None, whose: str = "") -> Iterator[Entry]:
    """The lines of a list.

    Args:
      path: Of the list.
      num_classes: K; None where any id will do.
      whose: As :func:`read_lines` takes it.

    Raises:
      DataError: if it cannot be read, or a line is no path with an id of a class.
    """
    for number, line in checked(read_lines(path, whose)):
        name, label = [*line.rsplit(maxsplit=1), ""][:2]
        known = _ID.fullmatch(label) and (num_classes is None or int(label) < num_classes)
        if not known or "\0" in name:
            raise DataError(_no_entry(path, number, line, label, num_classes))
        yield Entry(number, name, int(label))


def read_lines(path: pathlib.Path, whose: str = "") -> list[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers, without what is blank around.

    Args:
      path: Of a file in UTF-8, with or without a mark for that.
      whose: Such as ``, as WebVision has it``, for errors.

    Raises:
      DataError: if it cannot be read.
    """
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # of all ends of lines
    except UnicodeDecodeError as error:
        raise DataError(f"{path} cannot be read{whose}: {error}: save it in UTF-8") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read{whose}: {error}") from error
    return [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def _no_entry(
    path: pathlib.Path, number: int, line: str, label: str, num_classes: int | None
) -> str:
    """What is told of a line that is none of a list."""
    classes = "from 0 on" if num_classes is None else f"from 0 to {num_classes - 1}"
    remedy = ""
    if re.fullmatch(r"-[0-9.]+", label):
        remedy = "; if it stands for no label, remove the line"
    elif "," in line:
        remedy = "; a table of cells divided by commas is config.data.source=csv"
    return f"line {number} of {path} is {line[:200]!r}: a path and a class {classes} are " + (
        f"needed{remedy}"
    )


def _find(root: pathlib.Path, option: str, given: str) -> pathlib.Path:
    """A list by its name, as a config gives it."""
    expanded = os.path.expanduser(given)
    path = root / expanded
    if os.path.isfile(path):
        return path
    here = os.path.abspath(expanded)
    remedy = "a path is relative to config.data.root, or absolute"
    if os.path.isfile(here):
        remedy += f", as {here} is"
    raise DataError(f"config.data.{option}={given!r}: there is no file {path}: {remedy}")


def _names(path: pathlib.Path) -> tuple[str, ...]:
    """The names of classes, in the order of their ids."""
    lines: dict[str, int] = {}
    for place, (number, name) in enumerate(read_lines(path), 1):
        if number != place:
            raise DataError(
                f"line {place} of {path} is blank: the names of classes are needed, one a line, in "
                "the order of their ids"
            )
        if (first := lines.setdefault(name, number)) != number:
            raise DataError(
                f"line {number} of {path} is {name!r}, as line {first} is: give classes different "
                "names"
            )
    return tuple(lines)


def _images(root: pathlib.Path, path: pathlib.Path, names: tuple[str, ...] | None) -> list[Entry]:
    """The lines of a list, the first of which is of an image that is there."""
    entries = list(read_entries(path, None if names is None else len(names)))
    if not entries:
        raise DataError(f"{path} has no lines: a path and the id of a class are needed on each")
    for entry in checked(entries):
        check_written_name(entry.path)
    line, first, _ = entries[0]
    if not os.path.isfile(root / first):
        slashes = "; they are written with / between folders" if "\\" in first else ""
        raise DataError(
            f"line {line} of {path}: there is no file {root / first}: paths are relative to "
            f"config.data.root={str(root)!r}, which has to be the folder that they begin in"
            f"{slashes}"
        )
    return entries


def _check_labels(
    root: pathlib.Path,
    files: Mapping[str, pathlib.Path],
    entries: Mapping[str, list[Entry]],
) -> None:
    """That a file has the label that it had where it was named before."""
    folder, before = str(root), dict[str, tuple[int, str, int]]()
    for split, of_split in entries.items():
        for line, path, label in checked(of_split):
            file = os.path.normpath(os.path.join(folder, path))
            other, first_split, first = before.setdefault(file, (label, split, line))
            if other != label:
                raise DataError(
                    f"line {line} of {files[split]} labels {path} {label}, and line {first} of "
                    f"{files[first_split]} labels it {other}: leave one"
                )


def _ids(labels: set[int]) -> tuple[str, ...]:
    """The names of classes that are called by their ids."""
    num_classes = 1 + max(labels)
    if 0 not in labels:
        raise DataError(
            f"the lists have ids from {min(labels)} to {max(labels)}, and none is 0: number the "
            "classes from 0 on, or name all in config.data.class_list"
        )
    if num_classes > 2 * len(labels):
        raise DataError(
            f"the lists have {len(labels)} of the ids 0 to {num_classes - 1}: number the classes "
            "from 0 on, or, if the others are classes too, name all in config.data.class_list"
        )
    return tuple(map(str, range(num_classes)))
