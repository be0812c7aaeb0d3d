"""Everything that is measured on a GPU, in one process and within a time budget.

Run by ``benchmarks/gpu.sh``. Exactness, step ratios, whole epochs, then one full-size run each of
pre-training, ERM and HAR. Without a GPU all of it is made at a size at which the figures say
nothing, to see that it runs.
"""

import argparse
import json
import os
import pathlib
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch shares the card

import jax

from benchmarks import epochs, exactness, step
from benchmarks.candidates import PRECISIONS, Setup
from har_jax.config import recipes, validate
from har_jax.experiment.algorithm import Experiment
from har_jax.system.files import write_json

EPOCHS = 120.0
EXAMPLES, BATCH = 32_000, 128  # of CIFAR-10 with four rare classes, ratio 10
SPARE = 60.0  # seconds for compiling, evaluating, reporting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", required=True, help="holds a prepared cifar10")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=500.0, help="the time for everything")
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    args.out.mkdir(parents=True, exist_ok=True)
    on_gpu = jax.default_backend() == "gpu"
    if not on_gpu:
        print("There is no GPU here: sizes are tiny, and the figures mean nothing.\n")
    results: dict = {"device": jax.devices()[0].device_kind, "jax": jax.__version__}

    def keep(name: str, value) -> None:
        results[name] = value
        write_json(args.out / "gpu.json", results)

    depth, batch_size = (32, 128) if on_gpu else (8, 8)
    keep("exactness", exactness.measure(depth, batch_size, steps=10 if on_gpu else 2))
    for precision in PRECISIONS if on_gpu else ("float32",):
        setup = Setup(depth, batch_size, precision)
        keep(f"step {precision}", step.measure(setup, rounds=11 if on_gpu else 2))
    setup = Setup(depth, batch_size, "tf32" if on_gpu else "float32")
    keep("epochs", epochs.measure(setup, steps=200 if on_gpu else 2, rounds=3 if on_gpu else 1))
    left = deadline - time.monotonic()
    keep("training", train(args.data_dir, args.out / "run", left, results["epochs"], on_gpu))

    print(f"\n{time.monotonic() - deadline + args.seconds:.0f} s in all\n")
    show(results)


def train(data_dir: str, workdir: pathlib.Path, left: float, rates: dict, on_gpu: bool) -> dict:
    """ERM and HAR by the paper's recipe, their epochs shortened where time would run out."""
    seconds = {name: min(rates[name]["seconds"]["step in training"]) for name in ("erm", "har")}
    steps = EPOCHS * EXAMPLES / BATCH
    needed = 1.1 * steps * (0.5 * seconds["erm"] + seconds["erm"] + seconds["har"])
    part = min(1.0, max(0.01, (left - SPARE) / needed))
    config = recipes.noisy_and_rare(10)
    config.data.data_dir = data_dir
    if not on_gpu:
        recipes.shrink(config)
        config.data.train_size, part = 200, 1 / EPOCHS
    config.pretrain.epochs = config.train.epochs = EPOCHS * part
    config.optimizer.decay_epochs = (80.0 * part, 100.0 * part)
    validate(config)
    begun = time.monotonic()
    Experiment(config, workdir).run()
    report = json.loads((workdir / "report" / "results.json").read_text("utf-8"))
    return {
        "epochs": EPOCHS * part,
        "seconds": time.monotonic() - begun,
        "seed": config.seed,
        "means": report["means"],
    }


def show(results: dict) -> None:
    """Prints all tables."""
    exactness.show(results["exactness"])
    for name, value in results.items():
        if name.startswith("step"):
            print()
            step.show(value)
    print()
    epochs.show(results["epochs"])
    training = results["training"]
    full = "" if training["epochs"] == EPOCHS else f" in place of {EPOCHS:g}, for lack of time"
    print(
        f"\nCIFAR-10, noisy classes rare, ratio 10, seed {training['seed']}: "
        f"{training['epochs']:.1f} epochs{full}; {training['seconds']:.0f} s in all\n"
    )
    print("| method | noisy and rare classes | clean classes |\n| --- | --- | --- |")
    for method, parts in training["means"].items():
        shown = [f"{100 * parts[part]['test_accuracy']:.1f}" for part in ("noisy", "clean")]
        print(f"| {method.upper()} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
