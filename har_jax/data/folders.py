"""A person's own images, in folders of classes."""

import os
import pathlib
from collections.abc import Iterator

from har_jax.data.examples import DataError
from har_jax.data.file_names import check_name
from har_jax.data.listing import TEST_NAMES, Listing
from har_jax.interruption import checked

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)


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


def images_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """The image files in a folder and in those below, sorted; hidden ones are left out.

    Raises:
      DataError: if a folder cannot be read, or a name is not UTF-8, or read as something else.
    """

    def walk(place: pathlib.Path, above: frozenset[str]) -> Iterator[pathlib.Path]:
        real = os.path.realpath(place)
        if real in above:  # a link that leads back
            return
        for entry in checked(sorted(place.iterdir())):
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
        check_name(path)
    return found
