"""What a step of each method that a config can name costs beside plain training's.

python -m benchmarks.costs
python -m benchmarks.costs --depth=32 --rounds=11

Names of one method, which differ in strengths or labels, share a row. All are measured in turn,
round by round, and compared within a round. Nothing of this needs PyTorch.
"""

import argparse
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from benchmarks.candidates import PRECISIONS, Candidate, Setup, ours
from benchmarks.timing import alternate, ratio
from har_jax.methods import METHODS

VARIANTS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "har": ({"derivative": "first_order"}, {"every": 2}, {"derivative": "first_order", "every": 2})
}
"""By the name of a method, its options that cost something else."""


def candidates(setup: Setup) -> dict[str, Candidate]:
    """A step of each method and variant, plain training's first."""
    names: dict[Any, list[str]] = {}
    for name, entry in METHODS.items():
        names.setdefault(entry.make, []).append(name)
    found = {}
    for alike in names.values():
        variants = (options for name in alike for options in VARIANTS.get(name, ()))
        for options in ({}, *variants):
            said = [f"{option}={value}" for option, value in options.items()]
            found[", ".join(said or alike)] = ours(alike[0], setup, **options)
    return found


def show(setup: Setup, rounds: int) -> None:
    """Measures, and prints a Markdown table."""
    steps = candidates(setup)
    measured = alternate({name: each.run for name, each in steps.items()}, rounds)
    times = {name: values / steps[name].several for name, values in measured.items()}
    plain = next(iter(steps))
    print(
        f"ResNet-{setup.depth}, batch {setup.batch_size}, {setup.precision}, {rounds} rounds; "
        f"{jax.devices()[0].device_kind}, jax {jax.__version__}\n"
    )
    print(
        "| step | median, s | of ERM's (quartiles) | GFLOP | of ERM's | memory, MiB | of ERM's "
        "| compiling, s |"
    )
    print("| --- |" + " --- |" * 7)
    for name, step in steps.items():
        median, low, high = ratio(times[name], times[plain])
        flops, memory = _counts(step)
        of_flops, of_memory = _counts(step) / _counts(steps[plain])
        print(
            f"| {name} | {np.median(times[name]):.3f} | {median:.2f} ({low:.2f}-{high:.2f}) "
            f"| {flops / 1e9:.1f} | {of_flops:.2f} | {memory / 2**20:.0f} | {of_memory:.2f} "
            f"| {step.compile_seconds:.1f} |"
        )


def _counts(step: Candidate) -> np.ndarray:
    return np.array([step.flops, step.temporary_bytes], float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    show(Setup(args.depth, args.batch_size, args.precision), args.rounds)


if __name__ == "__main__":
    main()
