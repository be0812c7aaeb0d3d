"""WebVision 1.0 (Li et al. 2017) as it is distributed, with images resized to 256 pixels.

``info/`` holds ``synsets.txt`` and lists of files with their classes; images lie beside it.
"""

import pathlib
from collections.abc import Sequence

from har_jax.data.examples import DataError
from har_jax.data.found import Found
from har_jax.data.listing.file_names import check_written_name
from har_jax.data.listing.folders import list_files
from har_jax.data.listing.listing import Listing
from har_jax.data.listing.lists import read_entries, read_lines

SUBSETS = {
    "mini": (("google",), 50),  # the first 50 classes of Google's part: Jiang et al. 2018
    "google": (("google",), None),
    "full": (("google", "flickr"), None),
}
VALIDATION = "val_images_256"
IMAGENET = "imagenet"
_WHOSE = ", as WebVision has it"


def list_webvision(root: pathlib.Path, subset: str) -> Listing:
    """Lists a subset's training images, and WebVision's validation set as test set.

    Args:
      root: Holds ``info``, ``google``, ``flickr`` and ``val_images_256``.
      subset: One of :data:`SUBSETS`.

    Raises:
      DataError: if a list is not there, or says something that is none of it.
    """
    root = root.resolve()
    parts, num_classes = SUBSETS[subset]
    info = root / "info"
    synsets = [line.split(maxsplit=1)[0] for _, line in read_lines(info / "synsets.txt", _WHOSE)]
    classes = synsets[:num_classes]
    listed = {
        "train": [
            entry
            for part in parts
            for entry in _entries(info / f"train_filelist_{part}.txt", synsets)
        ],
        "test": [
            (f"{VALIDATION}/{path}", label)
            for path, label in _entries(info / "val_filelist.txt", synsets)
        ],
    }
    known = set(classes)
    kept = {
        split: [entry for entry in entries if entry[1] in known]
        for split, entries in listed.items()
    }
    for split, entries in kept.items():
        if not entries:
            raise DataError(f"{root}: no image of the split {split} is of the subset {subset}")
        check_written_name(entries[0][0])
        if not (root / entries[0][0]).is_file():
            raise DataError(f"{root / entries[0][0]} is listed, and not there")
    lists = {"train": " and ".join(parts), "test": "val"}
    other = sum(len(listed[split]) - len(entries) for split, entries in kept.items())
    return Listing(
        root,
        root,
        {split: [path for path, _ in entries] for split, entries in kept.items()},
        {split: [label for _, label in entries] for split, entries in kept.items()},
        order=tuple(classes),
        found=Found(
            {split: f"the list of {which}" for split, which in lists.items()},
            {"left out: images of other classes": other} if other else {},
        ),
    )


def list_imagenet(root: pathlib.Path, synsets: Sequence[str]) -> Listing:
    """Lists ImageNet's validation images of some classes, in a folder by synset each.

    Args:
      root: Holds folders such as ``n01440764``.
      synsets: The names of the classes.

    Raises:
      DataError: if none of them has a folder.
    """
    root = root.resolve()
    found = [
        (f"{name}/{path}", name)
        for name in synsets
        if (root / name).is_dir()
        for path in list_files(root / name).images
    ]
    if not found:
        raise DataError(
            f"config.data.imagenet={str(root)!r} has no folder of a synset with images, such as "
            f"{synsets[0]}"
        )
    paths, labels = zip(*found, strict=True)
    return Listing(root, root, {"test": paths}, {"test": labels}, order=tuple(synsets))


def _entries(path: pathlib.Path, synsets: Sequence[str]) -> list[tuple[str, str]]:
    found = read_entries(path, len(synsets), _WHOSE)
    return [(name, synsets[label]) for _, name, label in found]
