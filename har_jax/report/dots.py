"""Figures of as many rows as it takes, of dots: accuracies by group, and gains."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from har_jax.report.comparison import are_many
from har_jax.report.styles import styles_of

_ROW = 0.24  # inches
_LINE = "#999999"
_LONGEST = 28  # characters of a name


def by_group(groups: Sequence[Mapping[str, Any]], methods: Sequence[str], title: str) -> Figure:
    """The test accuracy of each method in each group, a row each, from the top in their order.

    A line joins the dots of a group, so that what it gains or loses is a length.
    """
    figure = Figure(figsize=(9, 1 + _ROW * len(groups)), layout="constrained")
    axes, styles = figure.subplots(), styles_of(methods)
    rows = np.arange(len(groups))
    shares = np.array([[_percent(group, method) for method in methods] for group in groups])
    told = ~np.isnan(shares).all(axis=1)
    low, high = np.nanmin(shares[told], axis=1), np.nanmax(shares[told], axis=1)
    axes.hlines(rows[told], low, high, color=_LINE, linewidth=1.5, zorder=1)
    for column, method in enumerate(methods):
        style = styles[method]
        axes.scatter(
            shares[:, column], rows, 26, style.color, marker=style.marker, label=method, zorder=2
        )
    names = [_cut(group["name"]) + ("*" if group["noisy"] else "") for group in groups]
    axes.set_yticks(rows, names)
    axes.set(xlabel="accuracy (%)", title=title, ylim=(len(groups) - 0.4, -0.6))
    axes.tick_params(axis="x", labeltop=True, top=True)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def every_group(groups: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> Figure:
    """The test accuracies of each method in all groups, its own from the lowest to the highest."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes, styles, many = figure.subplots(), styles_of(methods), are_many(methods)
    for method in methods:
        shares = np.sort([_percent(group, method) for group in groups])
        shares = shares[~np.isnan(shares)]
        ranks = np.linspace(0, 100, len(shares))
        style = styles[method]
        axes.plot(ranks, shares, color=style.color, linestyle=style.dashes, label=method)
    axes.set(xlabel="groups that are worse (%)", ylabel="accuracy (%)", xlim=(0, 100))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), ncols=2 if many else 1)
    return figure


def gains(numbers: Mapping[str, Any], methods: Mapping[str, str]) -> Figure | None:
    """What each gained over the first, with intervals, and at each seed; a panel for each part.

    Args:
      numbers: As :func:`har_jax.report.seeds.side_by_side` has them.
      methods: By label, the method that it is drawn as.

    Returns:
      None where nothing was compared.
    """
    first, parts = numbers["first"], numbers["parts"]
    labels = [label for label in numbers["rows"] if label != first]
    of = lambda label, part: numbers["rows"][label]["parts"][part]["gain"]
    if not any(of(label, part) for label in labels for part in parts):
        return None
    size = (2.6 * max(len(parts), 2) + 1.5, 1.2 + 0.35 * len(labels))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(parts), squeeze=False, sharex=True, sharey=True)[0]
    styles = styles_of(methods.values())
    for axes, part in zip(panels, parts, strict=True):
        axes.axvline(0, color=_LINE, linewidth=1)
        for row, label in enumerate(labels):
            if (gain := of(label, part)) is not None:
                style = styles[methods[label]]
                _gain(axes, row, gain, style.color, style.marker)
                if gain["over"] == "seeds":
                    points = _at_seeds(numbers["by_seed"], first, label, part)
                    axes.scatter(points, [row + 0.25] * len(points), 8, style.color, alpha=0.7)
        what = "classes" if part.endswith("-shot") else "groups"
        axes.set(title=f"{part} {what}", xlabel="points")
    panels[0].set_yticks(range(len(labels)), [_cut(label) for label in labels])
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    return figure


def _gain(axes: Axes, row: int, gain: Mapping[str, Any], color: str, marker: str) -> None:
    mean = 100 * gain["mean"]
    if gain["low"] is not None:
        axes.hlines(row, 100 * gain["low"], 100 * gain["high"], color=color, linewidth=2)
    axes.scatter([mean], [row], 40, color, marker=marker, zorder=2)


def _at_seeds(accuracies: Mapping[Any, Any], first: str, label: str, part: str) -> list[float]:
    before, after = accuracies[first], accuracies[label]
    return [100 * (after[seed][part] - before[seed][part]) for seed in after if seed in before]


def _percent(group: Mapping[str, Any], method: str) -> float:
    share = group["methods"][method]["test_accuracy"]
    return np.nan if share is None else 100 * share


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
