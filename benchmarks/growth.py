"""How a step grows with the batch and with the depth of the network.

python -m benchmarks.growth --plot=docs/results/step_growth.svg

Prints the seconds of a step and the slope on log axes, by least squares over all points: 1 is
proportional. A step has costs that do not grow, so that slopes rise towards 1.
"""

import argparse
import pathlib

import jax
import matplotlib
import numpy as np

from benchmarks.candidates import PRECISIONS, Setup, ours
from benchmarks.timing import alternate

BATCHES = (32, 64, 128, 256, 512, 1024)
DEPTHS = (8, 14, 20, 32, 56, 110)


def measure(precision: str, depth: int, batch_size: int, rounds: int) -> dict:
    """Median seconds by batch at one depth, and by depth at one batch."""
    batches = [Setup(depth, size, precision) for size in BATCHES]
    depths = [Setup(other, batch_size, precision) for other in DEPTHS]
    return {
        "device": jax.devices()[0].device_kind,
        f"batch, at depth {depth}": dict(zip(BATCHES, _times(batches, rounds), strict=True)),
        f"depth, at batch {batch_size}": dict(zip(DEPTHS, _times(depths, rounds), strict=True)),
    }


def _times(setups: list[Setup], rounds: int) -> list[dict[str, float]]:
    rows = []
    for setup in setups:
        runs = {name: ours(name, setup).run for name in ("erm", "har")}
        times = alternate(runs, rounds)
        rows.append({name: float(np.median(values)) for name, values in times.items()})
    return rows


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def show(results: dict) -> None:
    """Prints a Markdown table for each axis."""
    print(results["device"])
    for title, rows in _axes(results):
        print(f"\n| {title} | ERM, s | HAR, s | HAR / ERM |\n| --- | --- | --- | --- |")
        for size, row in rows.items():
            print(
                f"| {size} | {row['erm']:.4f} | {row['har']:.4f} | {row['har'] / row['erm']:.2f} |"
            )
        slopes = [slope(list(rows), [row[name] for row in rows.values()]) for name in _NAMES]
        print(f"| slope | {slopes[0]:.2f} | {slopes[1]:.2f} | |")


_NAMES = ("erm", "har")


def _axes(results):
    return [(title, rows) for title, rows in results.items() if title != "device"]


def plot(results: dict, path: pathlib.Path) -> None:
    """Draws both axes, logarithmic."""
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
    for panel, (title, rows) in zip(panels, _axes(results), strict=True):
        for name in _NAMES:
            panel.loglog(list(rows), [row[name] for row in rows.values()], "o-", label=name.upper())
        panel.set_xlabel(title)
        panel.set_xticks(list(rows), map(str, rows))
        panel.minorticks_off()
    panels[0].set_ylabel("seconds a step")
    panels[0].legend()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--depth", type=int, default=8, help="where the batch grows")
    parser.add_argument("--batch_size", type=int, default=32, help="where the depth grows")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", type=pathlib.Path)
    args = parser.parse_args()
    results = measure(args.precision, args.depth, args.batch_size, args.rounds)
    show(results)
    if args.plot:
        plot(results, args.plot)


if __name__ == "__main__":
    main()
