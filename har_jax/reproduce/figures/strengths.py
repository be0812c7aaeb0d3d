"""Accuracy against the strength, of uniform and adaptive regularization: table 4 as a figure."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from har_jax.experiment.workdir import StageError
from har_jax.report.styles import styles_of
from har_jax.reproduce.figures.runs import Made
from har_jax.reproduce.figures.written import Drawn

_KEYS = {"uniform": "regularizer.uniform_strength", "har": "regularizer.strength"}
_LABELS = {"uniform": "uniform: strength of all", "har": "HAR: the largest strength"}
_PARTS = {"all": "all classes", "noisy": "noisy classes", "clean": "clean classes"}


def draw(runs: Sequence[Made]) -> Drawn:
    """Draws the mean test accuracy over classes of every strength, over seeds.

    Raises:
      StageError: if there are not two strengths of a method, or two runs of one and one seed.
    """
    found: dict[str, dict[float, dict[int, dict]]] = {m: defaultdict(dict) for m in ("erm", *_KEYS)}
    for made in runs:
        for method, means in made.results["means"].items():
            if method in found:
                strength = float(made.config[_KEYS[method]]) if method in _KEYS else 0.0
                seed = made.results["seed"]
                if found[method][strength].setdefault(seed, means) != means:
                    raise StageError(
                        f"{made.workdir} is not the only run of {method} at strength {strength:g} "
                        f"and seed {seed}: give --runs that differ in these alone"
                    )
    if all(len(found[method]) < 2 for method in _KEYS):
        raise StageError(
            "accuracy against strength needs runs of uniform or har with two strengths at least"
        )
    split = runs[0].config["data.evaluate_on"]
    parts = [p for p in _PARTS if any(r.results["means"][m][p]["test_accuracy"] is not None
                                      for r in runs for m in r.results["means"])]  # fmt: skip
    if "noisy" not in parts:
        parts = ["all"]  # of which the clean ones are all
    figure = Figure(figsize=(4 * len(parts), 3.4), layout="constrained")
    places = figure.subplots(1, len(parts), squeeze=False)[0]
    styles, numbers = styles_of(found), {}
    for axes, part in zip(places, parts, strict=True):
        of_part = numbers[part] = {
            method: [
                {"strength": strength, **_summary(seeds, part)}
                for strength, seeds in sorted(strengths.items())
            ]
            for method, strengths in found.items()
        }
        for method, points in of_part.items():
            style = styles[method]
            if method == "erm":
                for point in points:
                    axes.axhline(point["mean"], color=style.color, linestyle="dotted", label="erm")
                continue
            axes.errorbar(
                [point["strength"] for point in points],
                [point["mean"] for point in points],
                yerr=[point["standard_error"] or 0 for point in points],
                label=_LABELS[method],
                color=style.color,
                linestyle=style.dashes,
                marker=".",
                capsize=2,
            )
        axes.set(
            title=_PARTS[part], xscale="log", xlabel="strength", ylabel=f"{split} accuracy (%)"
        )
        tried = sorted({point["strength"] for m in _KEYS for point in of_part[m]})
        axes.set_xticks(tried, [f"{strength:g}" for strength in tried])
        axes.minorticks_off()
    places[0].legend(loc="lower left")
    return Drawn(figure, numbers)


def _summary(means: dict[int, dict], part: str) -> dict:
    values = {seed: 100 * of[part]["test_accuracy"] for seed, of in sorted(means.items())}
    several = len(values) > 1
    error = np.std(list(values.values()), ddof=1) / np.sqrt(len(values)) if several else None
    return {
        "mean": float(np.mean(list(values.values()))),
        "standard_error": None if error is None else float(error),
        "by_seed": values,
    }
