"""The report's figures, as SVG text."""

import io
from collections.abc import Iterable, Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from har_jax.methods import METHODS
from har_jax.report.results import Inputs, kinds_of_examples
from har_jax.system import interruption

_KINDS = {"clean": "#4c72b0", "rare": "#dd8452", "noisy": "#c44e52"}
_PRETRAINED = "#999999"
_SMALLEST_LOSS = 1e-4


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
    figure = Figure(figsize=(4 * len(panels), 3), layout="constrained")
    bins = np.geomspace(_SMALLEST_LOSS, 20, 40)
    for axes, (title, (loss, rows)) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for kind, members in kinds.items():
            shown = loss[members[rows] & np.isfinite(loss)]  # of what could be read
            shown = np.clip(shown, bins[0], bins[-1])
            if len(shown):
                shares = np.full(len(shown), 1 / len(shown))
                axes.hist(shown, bins, weights=shares, alpha=0.6, label=kind, color=_KINDS[kind])
        axes.set(title=title, xscale="log", xlabel="loss (nats)", ylabel="share of the kind")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.legend()
    return svg(figure)


def training_curves(
    metrics: Mapping[str, Sequence[Mapping[str, float]]], methods: Iterable[str]
) -> str:
    """Every metric of every run, of methods and of pre-trained models, over the epochs."""
    names = sorted({name for records in metrics.values() for record in records for name in record})
    left_out = ("step", "epoch", "peak_ratio", "peak_norm", "peak_example")
    names = [name for name in names if name not in left_out]
    labels = {"norm": "mean R"}
    colors = _colors(methods)
    figure = Figure(figsize=(4 * len(names), 3), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for run, records in metrics.items():
            color = colors.get(run, _PRETRAINED)
            points = [(r["epoch"], r[name]) for r in records if name in r]
            if points:
                axes.plot(*zip(*points, strict=True), label=run, marker=".", color=color)
        axes.set(title=labels.get(name, name), xlabel="epoch")
        axes.legend()
    return svg(figure)


def accuracies(inputs: Inputs, results: Mapping) -> str:
    """Test accuracy of each method by group."""
    groups, methods = results["groups"], list(inputs.evaluations)
    figure = Figure(figsize=(max(6, 0.9 * len(groups)), 3), layout="constrained")
    axes = figure.subplots()
    width, colors = 0.8 / len(methods), _colors(methods)
    for shift, method in enumerate(methods):
        shares = [g["methods"][method]["test_accuracy"] for g in groups]
        heights = [np.nan if share is None else 100 * share for share in shares]
        left = np.arange(len(groups)) + shift * width
        axes.bar(left, heights, width, label=method, color=colors[method])
    names = [g["name"] + ("*" if g["noisy"] else "") for g in groups]
    axes.set_xticks(np.arange(len(groups)) + 0.4 - width / 2, names)
    axes.set(ylabel="accuracy (%)", title="by group; * has noisy labels")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return svg(figure)


def _colors(methods: Iterable[str]) -> dict[str, str]:
    """One for each method, which is the same in every report for those of this program."""
    known = dict.fromkeys((*METHODS, *methods))
    return {name: f"C{index}" for index, name in enumerate(known)}


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
