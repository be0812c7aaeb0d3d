"""How fast images are read from files, beside a bare loop that decodes them on as many cores.

python -m benchmarks.reading [--images=600] [--workers=0] [--rounds=5]

Writes JPEGs of 500x400 pixels, and reads them in turn by a thread for each core that decodes, crops
and resizes, and by the pipeline of training, for random parts of 224x224 pixels.
"""

import argparse
import concurrent.futures
import os
import pathlib
import tempfile
import time

import numpy as np
from PIL import Image

from har_jax.data.batches import Batches
from har_jax.data.reading.decoding import decode_square, random_part
from har_jax.data.reading.encoded import ImageFiles, Reading
from har_jax.data.reading.reading import read

BATCH = 50


def write_images(folder: pathlib.Path, count: int) -> list[str]:
    """Photographs are smooth: noise of low resolution, magnified, and a little of high."""
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (25, 32, 3), np.uint8))
        smooth = np.asarray(coarse.resize((500, 400), Image.Resampling.BICUBIC)).astype(int)
        pixels = np.clip(smooth + rng.normal(0, 4, smooth.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:05}.jpg", quality=90)
    return [f"{number:05}.jpg" for number in range(count)]


def bare(files: ImageFiles) -> float:
    """Images a second of a loop in threads."""

    def one(path: str) -> np.ndarray:
        rng = np.random.default_rng(0)
        return decode_square(files.root / path, 224, lambda *size: random_part(rng, *size))

    begun = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(one, files.paths):
            pass
    return len(files) / (time.perf_counter() - begun)


def pipeline(files: ImageFiles, rounds: int = 1) -> float:
    """Images a second of the pipeline, from the second batch on: workers take time to start."""
    batches = rounds * len(files) // BATCH
    stream = read(files, Batches(len(files), BATCH, 0), 0, batches + 1, seed=0)
    next(stream)
    begun = time.perf_counter()
    for _ in stream:
        pass
    return batches * BATCH / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        paths = np.array(write_images(root, options.images))
        reading = Reading(224, "resized_crop_and_flip", options.workers)
        files = ImageFiles(root, paths, reading)
        rates = np.array([(bare(files), pipeline(files)) for _ in range(options.rounds)])
    kept = rates[:, 1] / rates[:, 0]
    print("| bare loop, images/s | pipeline, images/s | kept (rounds) |")
    print("| --- | --- | --- |")
    first, second = np.median(rates, axis=0)
    spread = f"{np.median(kept):.2f} ({kept.min():.2f}-{kept.max():.2f})"
    print(f"| {first:.0f} | {second:.0f} | {spread} |")


if __name__ == "__main__":
    main()
