"""The figure of a long tail: the accuracy of every class, in order of frequency."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from har_jax.report.comparison import are_many
from har_jax.report.figures import legend, svg
from har_jax.report.styles import styles_of

MOST_POINTS = 60  # of a line; more classes than that are averaged over neighbours
_MOST_NAMES = 20
_COUNTS = "#e4e4e4"
_LEAST = 0.8  # of the axis of counts, below a class with one example


def runs_of(classes: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The classes that are tested, from the most frequent on, in runs that are a point each.

    A run is a class, or of more than :data:`MOST_POINTS` classes as many neighbours as there are in
    any other, but for one. Of equally frequent classes the first come first.
    """
    tested = [each for each in classes if each["test_n"]]
    ordered = sorted(tested, key=lambda each: (-each["n"], each["class"]))
    parts = np.array_split(np.arange(len(ordered)), min(len(ordered), MOST_POINTS))
    return [[ordered[index] for index in part] for part in parts]


def by_frequency(results: Mapping[str, Any]) -> str:
    """The accuracy of each method in each class, and how many training examples this has."""
    runs, methods = runs_of(results["classes"]), list(results["class_means"])
    edges = np.cumsum([0, *map(len, runs)])
    middles = (edges[:-1] + edges[1:] + 1) / 2  # of ranks that begin with 1
    figure = Figure(figsize=(11, 3.5), layout="constrained")
    axes = figure.subplots()
    _counts(axes, [np.mean([each["n"] for each in run]) for run in runs], edges + 0.5)
    styles, many, drawn = styles_of(methods), are_many(methods), {}
    for method in methods:
        style = styles[method]
        [drawn[method]] = axes.plot(
            middles,
            [_percent([each["test_accuracy"][method] for each in run]) for run in runs],
            label=method,
            color=style.color,
            linestyle=style.dashes,
            marker=None if many else ".",
        )
    _boundaries(axes, [each["shot"] for run in runs for each in run])
    axes.set(xlim=(0.5, edges[-1] + 0.5), ylabel="accuracy (%)", xlabel=_what(runs))
    if edges[-1] <= _MOST_NAMES:
        names = [run[0]["name"] for run in runs]
        axes.set_xticks(middles, names, rotation=30, ha="right", rotation_mode="anchor")
    legend(figure, drawn)
    return svg(figure)


def _what(runs: Sequence[Sequence[Any]]) -> str:
    most = max(map(len, runs))
    if most == 1:
        return "classes, the most frequent first"
    return f"classes, the most frequent first; a point is the mean of up to {most} of them"


def _counts(axes: Axes, counts: Sequence[Any], edges: np.ndarray) -> None:
    """Steps on an axis of their own, behind the lines."""
    behind = axes.twinx()
    behind.stairs(np.maximum(counts, _LEAST), edges, baseline=_LEAST, fill=True, color=_COUNTS)
    behind.set(yscale="log", ylabel="training examples (grey)")
    behind.set_ylim(bottom=_LEAST)
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)


def _boundaries(axes: Axes, shots: Sequence[str]) -> None:
    """Where one shot ends and the next begins, and which it is, above."""
    begin = 0
    for shot in dict.fromkeys(shots):
        end = begin + shots.count(shot)
        if begin:
            axes.axvline(begin + 0.5, color="#777777", linewidth=0.8)
        place = ((begin + end + 1) / 2, 1.02)
        axes.text(*place, shot, transform=axes.get_xaxis_transform(), ha="center")
        begin = end


def _percent(shares: Sequence[float | None]) -> float:
    known = [share for share in shares if share is not None]
    return 100 * math.fsum(known) / len(known) if known else math.nan
