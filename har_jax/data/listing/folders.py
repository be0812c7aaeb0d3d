"""A person's own images, in folders of classes."""

import dataclasses
import os
import pathlib
import warnings
from collections.abc import Iterator, Mapping, Sequence

from har_jax.data.examples import DataError
from har_jax.data.found import Found, by_suffix
from har_jax.data.listing.file_names import check_name
from har_jax.data.listing.listing import Listing
from har_jax.data.listing.split_names import assign_splits, resembles_split, split_of
from har_jax.data.listing.suffixes import image_suffixes
from har_jax.system.interruption import check
from har_jax.system.terminal import some


@dataclasses.dataclass(frozen=True)
class Files:
    """What lies in a folder and in those below, without what is hidden; relative to it, sorted.

    Attributes:
      images: What the installed Pillow opens, by suffix.
      others: Other files.
      folders: Those within it, not those further below.
    """

    images: Sequence[str]
    others: Sequence[str]
    folders: Sequence[str]


def list_folder(root: pathlib.Path, has_splits: bool | None = None) -> Listing:
    """Lists ``root/CLASS/...``, or ``root/train/CLASS/...`` and ``root/test/CLASS/...``.

    Files whose names begin with a dot are left out; others that are not those of images are
    counted. Splits may be called as :func:`har_jax.data.listing.split_names.split_of` has it; one
    of validation is what is tested on where there is no other, and a further test set where there
    is.

    Args:
      root: The folder.
      has_splits: Whether its folders are splits, or classes; None goes by what they are called, and
        by whether folders of classes lie in them.

    Raises:
      DataError: if there is no such folder, or no image in it, or it can be read in two ways.

    Warns:
      UserWarning: if the folder of a class has no image.
    """
    root = root.resolve()
    if not root.is_dir():
        raise DataError(f"config.data.root={str(root)!r} is no folder")
    files = list_files(root)
    splits = _splits(root, files, has_splits)
    paths: dict[str, list[str]] = {split: [] for split in splits}
    labels: dict[str, list[str]] = {split: [] for split in splits}
    of_folder = {folder: split for split, folder in splits.items()}
    elsewhere = []
    for path in files.images:
        check()
        *above, _ = parts = path.split(os.sep)
        split = of_folder.get("" if "" in of_folder else parts[0])
        if split is None:
            elsewhere.append(path)
            continue
        above = above[bool(splits[split]) :]
        if not above:
            raise DataError(
                f"{root / path} lies in no folder of a class: move it into one"
                + (", or set config.data.has_splits=False" if splits[split] else "")
            )
        paths[split].append(path)
        labels[split].append(above[0])
    for split, folder in splits.items():
        if not paths[split]:
            raise DataError(
                f"there are no images in {root / folder}: folders of classes are needed, with "
                "files named *.jpg, *.png or what else the installed Pillow opens"
                f"{_instead(files.others)}"
            )
    _warn_of_empty(root, splits, labels)
    hidden = _hidden(root, splits)
    found = Found(
        {split: f"the folder {folder or root.name!r}" for split, folder in splits.items()},
        {f"left out: {what}": count for what, count in by_suffix(files.others).items()},
    ).counted(
        {
            "left out: images outside of the folders of splits": len(elsewhere),
            f"left out: hidden folders ({some(hidden)})": len(hidden),
        }
    )
    return Listing(root, root, paths, labels, found=found)


def list_files(folder: pathlib.Path) -> Files:
    """Lists a folder.

    Raises:
      DataError: if a folder cannot be read, or a name is not UTF-8, or read as something else.
    """
    suffixes = image_suffixes()
    images: list[str] = []
    others: list[str] = []
    try:
        for path in _walk(str(folder), "", frozenset()):
            name = path.rpartition(os.sep)[2]
            (images if os.path.splitext(name)[1].lower() in suffixes else others).append(path)
        folders = sorted(entry.name for entry in _visible(str(folder)) if entry.is_dir())
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
    for path in images:
        check_name(os.path.join(folder, path))
    return Files(images, others, folders)


def _walk(root: str, within: str, above: frozenset[str]) -> Iterator[str]:
    place = os.path.join(root, within)
    real = os.path.realpath(place)
    if real in above:  # a link that leads back
        return
    for entry in sorted(_visible(place), key=lambda entry: entry.name):
        path = os.path.join(within, entry.name)
        if entry.is_dir():
            check()
            yield from _walk(root, path, above | {real})
        else:
            yield path


def _visible(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return [entry for entry in entries if not _is_hidden(entry.name)]


def _is_hidden(name: str) -> bool:
    """Whether a name is that of a hidden file, or of what systems leave in people's folders."""
    return name[0] in ".@$" or name in ("__MACOSX", "lost+found", "System Volume Information")


def _hidden(root: pathlib.Path, splits: Mapping[str, str]) -> list[str]:
    """Folders that would be those of classes if they were not hidden."""
    found: list[str] = []
    for folder in splits.values():
        with os.scandir(root / folder) as entries:
            found += [entry.name for entry in entries if _is_hidden(entry.name) and entry.is_dir()]
    return sorted(found)


def _splits(root: pathlib.Path, files: Files, has_splits: bool | None) -> Mapping[str, str]:
    """The folder of every split; ``{"train": ""}`` where folders are classes.

    Raises:
      DataError: if there are none where there are to be some, or both readings are possible.
    """
    if has_splits is False:
        return {"train": ""}
    direct = {path.split(os.sep)[0] for path in files.images if path.count(os.sep) == 1}
    nested = {path.split(os.sep)[0] for path in files.images if path.count(os.sep) > 1}
    named = [folder for folder in files.folders if split_of(folder)]
    unnamed = [folder for folder in sorted(direct | nested) if not split_of(folder)]
    if has_splits or (not unnamed and "train" in map(split_of, named)):
        return assign_splits(named, str(root))
    # A split holds folders of classes; a class that is called as one, such as a train, need not.
    doubtful = [f for f in sorted(nested - direct) if split_of(f) or resembles_split(f)]
    if doubtful:
        raise DataError(
            f"{root} can be read in two ways: {some(list(map(repr, doubtful)))} may be splits that "
            f"hold folders of classes, or classes beside {some(list(map(repr, unnamed))) or 'them'}"
            ": if splits, name their folders train and test, leave no other images beside them, "
            "or set config.data.has_splits=True, which reads nothing else; if classes, set "
            "config.data.has_splits=False"
        )
    inner = {path.split(os.sep)[1] for path in files.images if path.count(os.sep) > 1}
    if not direct and len(inner) > 1 and all(map(split_of, inner)):
        raise DataError(
            f"{root} has folders of classes that hold {some(sorted(map(repr, inner)))}, which may "
            "be splits: put these outside, with the folders of classes in them, or, to leave them "
            "alone and have a test set made, set config.data.has_splits=False"
        )
    return {"train": ""}


def _instead(others: Sequence[str]) -> str:
    counts = by_suffix(others)
    shown = some([f"{count} {what}" for what, count in counts.items()])
    return f"; there are {shown}" if counts else ""


def _warn_of_empty(
    root: pathlib.Path, splits: Mapping[str, str], labels: Mapping[str, Sequence[str]]
) -> None:
    classes = {split: set(names) for split, names in labels.items()}
    empty = [
        os.path.join(folder, entry.name)
        for split, folder in splits.items()
        for entry in _visible(str(root / folder))
        if entry.is_dir() and entry.name not in classes[split]
    ]
    if empty:
        warnings.warn(
            f"{root} has folders without an image, which are no classes: "
            f"{some(sorted(map(repr, empty)))}",
            stacklevel=3,
        )
