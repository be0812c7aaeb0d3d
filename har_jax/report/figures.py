"""The report's figures, as SVG text."""

import io
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from har_jax.report import dots
from har_jax.report.comparison import are_many
from har_jax.report.results import Inputs, kinds_of_examples
from har_jax.report.styles import Style, styles_of
from har_jax.system import interruption

_KINDS = {  # of examples
    **dict.fromkeys(("clean", "frequent", "all"), "#0072b2"),
    "rare": "#e69f00",
    "noisy": "#882255",
}
_PRETRAINED = Style("#999999")
_SMALLEST_LOSS = 1e-4
_IN_A_ROW = 4  # panels
_ENTRIES_IN_AN_INCH = 4  # of a legend, below one another
MOST_IN_A_ROW = 12  # groups, whose names stand below bars
_MOST_BARS = 66  # in a row of the figure of accuracies, where methods are many


def loss_histograms(inputs: Inputs) -> str:
    """Per-example losses of clean, rare and mislabelled training examples: figure 1.

    First of the pre-trained model, if there is one, on the part that it did not see, then of
    each method on all of what it was trained on.
    """
    kinds = kinds_of_examples(inputs.data)
    panels = {}
    if inputs.held_out is not None:
        panels["pre-trained, held-out part"] = (inputs.held_out.loss, inputs.held_out.index)
    everything = np.arange(len(inputs.data.train))
    for method, evaluation in inputs.evaluations.items():
        panels[f"{method}, training set"] = (evaluation["train_loss"], everything)
    return svg(loss_panels(panels, kinds))


def loss_panels(
    panels: Mapping[str, tuple[np.ndarray, np.ndarray]], kinds: Mapping[str, np.ndarray]
) -> Figure:
    """A histogram of losses by kind in each panel.

    Args:
      panels: By title, losses and which training examples they are of.
      kinds: By name, which training examples are of the kind.
    """
    figure, places = _panels(len(panels))
    bins = np.geomspace(_SMALLEST_LOSS, 20, 40).tolist()
    drawn: dict[str, Any] = {}
    for axes, (title, (loss, rows)) in zip(places, panels.items(), strict=True):
        for kind, members in kinds.items():
            shown = loss[members[rows] & np.isfinite(loss)]  # of what could be read
            shown = np.clip(shown, bins[0], bins[-1])
            if len(shown):
                shares = np.full(len(shown), 1 / len(shown))
                _, _, drawn[kind] = axes.hist(
                    shown, bins, weights=shares, alpha=0.6, label=kind, color=_KINDS[kind]
                )
        axes.set(title=title, xscale="log", xlabel="loss (nats)", ylabel="share of the kind")
        axes.xaxis.set_major_formatter("{x:g}")
    legend(figure, drawn)
    return figure


def training_curves(
    metrics: Mapping[str, Sequence[Mapping[str, float]]], methods: Collection[str]
) -> str:
    """Every metric of every run, of methods and of pre-trained models, over the epochs."""
    names = sorted({name for records in metrics.values() for record in records for name in record})
    left_out = ("step", "epoch", "peak_ratio", "peak_norm", "peak_example")
    names = [name for name in names if name not in left_out]
    labels = {"norm": "mean R"}
    styles, many = styles_of(methods), are_many(methods)
    figure, places = _panels(len(names))
    drawn: dict[str, Any] = {}
    for axes, name in zip(places, names, strict=True):
        for run, records in metrics.items():
            style = styles.get(run, _PRETRAINED)
            points = [(r["epoch"], r[name]) for r in records if name in r]
            if points:
                [drawn[run]] = axes.plot(
                    *zip(*points, strict=True),
                    label=run,
                    color=style.color,
                    linestyle=style.dashes,
                    marker=".",
                    markevery=[-1] if many else None,  # a mark at each point hides dashes
                )
        axes.set(title=labels.get(name, name), xlabel="epoch")
    legend(figure, drawn)
    return svg(figure)


def accuracies(inputs: Inputs, results: Mapping[str, Any]) -> str:
    """Test accuracy of each method by group: bars, and dots of more groups than a row has room for.

    Bars of many methods are in as many rows as it takes.
    """
    groups, methods = results["groups"], list(inputs.evaluations)
    title = "by group; * has noisy labels" if inputs.data.noisy_classes else "by group"
    if len(groups) > MOST_IN_A_ROW:
        return svg(dots.by_group(groups, methods, title))
    if not are_many(methods):
        figure = Figure(figsize=(max(6, 0.9 * len(groups)), 3), layout="constrained")
        axes = figure.subplots()
        axes.set(ylabel="accuracy (%)", title=title)
        _bars(axes, groups, methods)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        return svg(figure)
    count = math.ceil(len(groups) * len(methods) / _MOST_BARS)
    length = math.ceil(len(groups) / count)
    rows = [groups[begin : begin + length] for begin in range(0, len(groups), length)]
    figure = Figure(figsize=(11, 2.4 * len(rows)), layout="constrained")
    places = list(figure.subplots(len(rows), 1, squeeze=False, sharey=True).flat)
    for axes, row in zip(places, rows, strict=True):
        axes.set(ylabel="accuracy (%)", xlim=(-0.2, length))
        drawn = _bars(axes, row, methods)
    places[0].set(title=title)
    legend(figure, drawn)
    return svg(figure)


def _bars(
    axes: Axes, groups: Sequence[Mapping[str, Any]], methods: Sequence[str]
) -> dict[str, Any]:
    """One for each group and method; gives those of each method."""
    width, styles, drawn = 0.8 / len(methods), styles_of(methods), {}
    for shift, method in enumerate(methods):
        shares = [g["methods"][method]["test_accuracy"] for g in groups]
        heights = [np.nan if share is None else 100 * share for share in shares]
        left = np.arange(len(groups)) + shift * width
        style = styles[method]
        drawn[method] = axes.bar(
            left,
            heights,
            width,
            label=method,
            color=style.color,
            hatch=style.hatch,
            edgecolor="white",  # of hatches
            linewidth=0,
        )
    names = [g["name"] + ("*" if g["noisy"] else "") for g in groups]
    axes.set_xticks(np.arange(len(groups)) + 0.4 - width / 2, names)
    return drawn


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """So many, in rows of a few."""
    columns = min(count, _IN_A_ROW)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(4 * columns, 3 * rows), layout="constrained")
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in places[count:]:
        spare.remove()
    return figure, places[:count]


def legend(figure: Figure, drawn: Mapping[str, Artist]) -> None:
    """What was drawn, by its names: beside the panels, and the figure as high as that takes."""
    least = len(drawn) / _ENTRIES_IN_AN_INCH
    figure.set_figheight(max(figure.get_figheight(), least))
    figure.legend(drawn.values(), drawn.keys(), loc="outside right upper")


def svg(figure: Figure) -> str:
    """A figure as SVG text, the same every time."""
    interruption.check()  # of some figures, each of which takes a while
    buffer = io.StringIO()
    # A fixed salt and no date: the same experiment gives the same page. Names that come
    # from data are drawn as they are, not read as mathematics.
    with matplotlib.rc_context({"svg.hashsalt": "har_jax", "text.parse_math": False}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
