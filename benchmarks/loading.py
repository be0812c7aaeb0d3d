"""What the search for equal examples adds to loading a folder of many small images.

    python -m benchmarks.loading --files=50000 --rounds=5

Writes the folder, and then alternates, in one process: listing it, listing and searching it, and
reading every image once, as the first epoch does. Prints medians, and the ratios of each round.
"""

import functools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from absl import app, flags
from PIL import Image

from har_jax.data.examples import Dataset
from har_jax.data.hold_out import HoldOut
from har_jax.data.leaks import mend_leaks
from har_jax.data.listing.folders import list_folder
from har_jax.data.listing.listing import to_dataset
from har_jax.data.reading.encoded import Reading
from har_jax.data.reading.reading import read

FILES = flags.DEFINE_integer(
    "files", 50_000, "Images, a fifth of them to test on.", lower_bound=1000
)
ROUNDS = flags.DEFINE_integer("rounds", 5, "How often each is measured.", lower_bound=1)

_CLASSES, _BATCH = 100, 100
T = TypeVar("T")


def main(_: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        _write(root, FILES.value)
        times: dict[str, list[float]] = {"listing": [], "searching": [], "reading": []}
        for _ in range(ROUNDS.value + 1):  # the first is not counted
            dataset, listing = _timed(_list, root)
            _, searching = _timed(mend_leaks, dataset, "stop")
            _, reading = _timed(_read, dataset)
            for name, seconds in zip(times, (listing, searching, reading), strict=True):
                times[name].append(seconds)
    counted = {name: of[1:] for name, of in times.items()}
    print("| | seconds, median | least | most |\n| --- | --- | --- | --- |")
    for name, of in counted.items():
        print(f"| {name} | {statistics.median(of):.2f} | {min(of):.2f} | {max(of):.2f} |")
    shares = [
        100 * search / (listing + reading)
        for listing, search, reading in zip(*counted.values(), strict=True)
    ]
    print(
        f"\nSearching adds {statistics.median(shares):.1f}% ({min(shares):.1f} to "
        f"{max(shares):.1f}) to listing and reading {FILES.value} files once."
    )


def _write(root: pathlib.Path, count: int) -> None:
    rng = np.random.default_rng(0)
    for number in range(count):
        split = "test" if number % 5 == 0 else "train"
        place = root / split / f"class {number // 5 % _CLASSES:03}"
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).resize((32, 32)).save(place / f"{number:06}.jpg")


def _list(root: pathlib.Path) -> Dataset:
    dataset = to_dataset(list_folder(root), Reading(image_size=32), HoldOut(), seed=0)
    for examples in (dataset.train, dataset.test):
        examples.inputs.checksum()  # type: ignore[attr-defined]
    return dataset


def _read(dataset: Dataset) -> None:
    for examples in (dataset.train, dataset.test):
        rows_of = functools.partial(_rows, len(examples))
        batches = -(-len(examples) // _BATCH)
        for _ in read(examples.inputs, rows_of, 0, batches, seed=None):  # type: ignore[arg-type]
            pass


def _rows(count: int, batch: int) -> np.ndarray:
    return (_BATCH * batch + np.arange(_BATCH)) % count


def _timed(function: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


if __name__ == "__main__":
    app.run(main)
