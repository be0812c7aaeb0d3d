"""Whole epochs beside the bare step: what data, augmentation, metrics and the loop cost.

python -m benchmarks.epochs
python -m benchmarks.epochs --depth=8 --batch_size=32 --steps=100 --rounds=3

Trains on random images as the paper's recipe does on CIFAR-10, cropping, mirroring and normalizing
them, and times in turn with it a bare step, whose batch is on the device and ready. The rate of
training is that of the steps that a longer run makes beyond those of a short one.
"""

import argparse
import contextlib
import os
import pathlib
import tempfile
import time

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from benchmarks.candidates import PRECISIONS, Setup, make_method, ours
from har_jax.data.images import AUGMENTATIONS, normalizer
from har_jax.system.files import write_json
from har_jax.train.loop import fit

EXAMPLES = 12_800
SHORT = 50  # the steps of a dispatch on GPU and TPU


def measure(setup: Setup, steps: int, rounds: int) -> dict:
    """Seconds of a bare step and of one in training, and of starting with and without cache."""
    with tempfile.TemporaryDirectory() as cache:
        compilation_cache.reset_cache()  # one that was opened elsewhere stays open
        jax.config.update("jax_compilation_cache_dir", cache)
        measured = {name: _measure(name, setup, steps, rounds) for name in ("erm", "har")}
        jax.config.update("jax_compilation_cache_dir", None)
        compilation_cache.reset_cache()
    return {"device": jax.devices()[0].device_kind, "setup": vars(setup), **measured}


def _measure(name, setup, steps, rounds):
    bare = ours(name, setup).run
    bare(2)
    starts = [_training_seconds(name, setup, SHORT) for _ in range(2)]
    seconds = {"bare step": [], "step in training": []}
    for _ in range(rounds):
        begun = time.perf_counter()
        bare(steps)
        seconds["bare step"].append((time.perf_counter() - begun) / steps)
        short, long = (_training_seconds(name, setup, SHORT + more) for more in (0, steps))
        seconds["step in training"].append((long - short) / steps)
    first = SHORT * float(np.median(seconds["step in training"]))
    return {
        "seconds": seconds,
        "start_seconds": starts[0] - first,
        "cached_start_seconds": starts[1] - first,
    }


def _training_seconds(name: str, setup: Setup, steps: int) -> float:
    rng = np.random.default_rng(0)
    data = {
        "inputs": rng.integers(256, size=(EXAMPLES, 32, 32, 3), dtype=np.uint8),
        "labels": rng.integers(10, size=EXAMPLES).astype(np.int32),
        "strength": rng.uniform(0, 0.1, size=EXAMPLES).astype(np.float32),
    }
    method = make_method(
        name,
        setup,
        augment=AUGMENTATIONS["crop_and_flip"],
        preprocess=normalizer((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w") as nothing,
        contextlib.redirect_stdout(nothing),
        setup.matmul_precision(),
    ):
        begun = time.perf_counter()
        fit(
            method,
            data,
            pathlib.Path(folder),
            steps=steps,
            batch_size=setup.batch_size,
            seed=0,
            log_every=100,
            checkpoint_every=1000,
            title=name,
        )
        return time.perf_counter() - begun


def show(results: dict) -> None:
    """Prints a Markdown table."""
    setup = results["setup"]
    print(
        f"ResNet-{setup['depth']}, batch {setup['batch_size']}, {setup['precision']}; "
        f"{results['device']}\n"
    )
    print(
        "| method | bare step, s | step in training, s | rate kept (rounds) | images/s "
        "| start, s | cached start, s |"
    )
    print("| --- |" + " --- |" * 6)
    for name in ("erm", "har"):
        bare, whole = (np.array(values) for values in results[name]["seconds"].values())
        kept = bare / whole
        print(
            f"| {name.upper()} | {np.median(bare):.4f} | {np.median(whole):.4f} "
            f"| {np.median(kept):.2f} ({kept.min():.2f}-{kept.max():.2f}) "
            f"| {setup['batch_size'] / np.median(whole):.0f} "
            f"| {results[name]['start_seconds']:.1f} "
            f"| {results[name]['cached_start_seconds']:.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    results = measure(Setup(args.depth, args.batch_size, args.precision), args.steps, args.rounds)
    if args.json:
        write_json(args.json, results)
    show(results)


if __name__ == "__main__":
    main()
