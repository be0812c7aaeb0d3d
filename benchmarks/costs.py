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

from benchmarks.candidates import PRECISIONS, Candidate, Setup, beside, ours
from har_jax.methods import METHODS

VARIANTS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "har": ({"derivative": "first_order"}, {"every": 2}, {"derivative": "first_order", "every": 2}),
    "mentornet": ({"curriculum": "data_driven"},),
}
"""By the name of a method, its options that cost something else."""


def candidates(setup: Setup) -> dict[str, Candidate]:
    """A step of each method and variant, plain training's first."""
    names: dict[Any, list[str]] = {}
    for name, entry in METHODS.items():
        names.setdefault((entry.make, entry.loss), []).append(name)
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
    print(
        f"ResNet-{setup.depth}, batch {setup.batch_size}, {setup.precision}, {rounds} rounds; "
        f"{jax.devices()[0].device_kind}, jax {jax.__version__}\n"
    )
    head, *rows = beside(steps, rounds)
    print(f"| {' | '.join([*head, 'compiling, s'])} |\n|{' --- |' * (len(head) + 1)}")
    for row, step in zip(rows, steps.values(), strict=True):
        print(f"| {' | '.join([*row, f'{step.compile_seconds:.1f}'])} |")


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
