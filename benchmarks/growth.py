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


def measure(args: argparse.Namespace) -> dict:
    """Median seconds by batch at one depth, and by depth at one batch."""
    at = lambda depth, batch: _times(Setup(depth, batch, args.precision), args.rounds)
    return {
        "device": jax.devices()[0].device_kind,
        f"batch, at depth {args.depth}": {size: at(args.depth, size) for size in args.batches},
        f"depth, at batch {args.batch_size}": {
            depth: at(depth, args.batch_size) for depth in args.depths
        },
    }


def _times(setup: Setup, rounds: int) -> dict[str, float]:
    runs = {
        "ERM": ours("erm", setup).run,
        "HAR": ours("har", setup).run,
        "HAR, first order": ours("har", setup, derivative="first_order").run,
    }
    return {name: float(np.median(each)) for name, each in alternate(runs, rounds).items()}


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def show(results: dict) -> None:
    """Prints a Markdown table for each axis."""
    print(results["device"])
    for title, rows in _axes(results):
        names = list(next(iter(rows.values())))
        others = names[1:]
        heads = [title, *(f"{name}, s" for name in names), *(f"{name} / ERM" for name in others)]
        print(f"\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
        for size, row in rows.items():
            cells = [f"{row[name]:.4f}" for name in names]
            cells += [f"{row[name] / row['ERM']:.2f}" for name in others]
            print(f"| {size} | {' | '.join(cells)} |")
        slopes = [slope(list(rows), [row[name] for row in rows.values()]) for name in names]
        print(f"| slope | {' | '.join(f'{each:.2f}' for each in slopes)} |{' |' * len(others)}")


def _axes(results):
    return [(title, rows) for title, rows in results.items() if title != "device"]


def plot(results: dict, path: pathlib.Path) -> None:
    """Draws both axes, logarithmic."""
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
    for panel, (title, rows) in zip(panels, _axes(results), strict=True):
        for name in next(iter(rows.values())):
            panel.loglog(list(rows), [row[name] for row in rows.values()], "o-", label=name)
        panel.set_xlabel(title)
        panel.set_xticks(list(rows), map(str, rows))
        panel.minorticks_off()
    panels[0].set_ylabel("seconds a step")
    panels[0].legend(loc="upper left")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--depth", type=int, default=8, help="where the batch grows")
    parser.add_argument("--batch_size", type=int, default=32, help="where the depth grows")
    parser.add_argument("--batches", type=int, nargs="+", default=(32, 64, 128, 256, 512, 1024))
    parser.add_argument("--depths", type=int, nargs="+", default=(8, 14, 20, 32, 56, 110))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", type=pathlib.Path)
    args = parser.parse_args()
    results = measure(args)
    show(results)
    if args.plot:
        plot(results, args.plot)


if __name__ == "__main__":
    main()
