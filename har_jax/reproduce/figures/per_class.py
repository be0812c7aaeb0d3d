"""Strength, validation error and accuracy by class: the figure of Cao et al. 2021's appendix C."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from har_jax.experiment.workdir import StageError
from har_jax.report.styles import styles_of
from har_jax.reproduce.figures.runs import Made
from har_jax.reproduce.figures.written import Drawn

_NAMED = 40  # classes, beyond which their names are not legible
_METHODS = ("erm", "uniform", "har")


def draw(runs: Sequence[Made]) -> Drawn:
    """Draws the mean over runs of each group, the least regularized first.

    Raises:
      StageError: if the runs are not of the same groups, or HAR was not trained in them.
    """
    names = [group["name"] for group in runs[0].results["groups"]]
    for made in runs:
        groups = made.results["groups"]
        if [group["name"] for group in groups] != names:
            raise StageError(f"{made.workdir} has other groups than {runs[0].workdir}")
        if "har" not in groups[0]["methods"]:
            raise StageError(f"{made.workdir} has no HAR, whose strengths could be drawn")
    methods = [m for m in _METHODS if all(m in r.results["groups"][0]["methods"] for r in runs)]
    values = {
        "strength": _gather(runs, lambda group: group["methods"]["har"]["strength"]),
        "validation_error": _gather(runs, lambda group: group["validation_error"]),
        **{
            method: _gather(runs, lambda group, m=method: group["methods"][m]["test_accuracy"])
            for method in methods
        },
    }
    order = np.argsort(values["strength"].mean(axis=0), kind="stable")
    values = {key: value[:, order] for key, value in values.items()}
    marks = [
        names[index] + ("*" if runs[0].results["groups"][index]["noisy"] else "") for index in order
    ]
    place = np.arange(len(marks))
    figure = Figure(figsize=(min(14, max(7, 0.5 * len(marks))), 7), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    styles = styles_of(_METHODS)
    top.bar(place, values["strength"].mean(axis=0), color=styles["har"].color)
    top.set(
        ylabel="strength of HAR", title="by class, the least regularized first; * has noisy labels"
    )
    error, spread = (
        100 * values["validation_error"].mean(axis=0),
        _spread(values["validation_error"]),
    )
    middle.bar(place, error, yerr=spread, color="#999999", capsize=2)
    middle.set(ylabel="validation error (%)")
    for method in methods:
        style = styles[method]
        bottom.errorbar(
            place,
            100 * values[method].mean(axis=0),
            yerr=_spread(values[method]),
            label=method,
            color=style.color,
            linestyle=style.dashes,
            marker=".",
            capsize=2,
        )
    bottom.set(ylabel=f"{runs[0].config['data.evaluate_on']} accuracy (%)")
    bottom.legend(loc="lower right")
    if len(marks) <= _NAMED:
        bottom.set_xticks(place, marks, rotation=0 if max(map(len, marks)) < 6 else 60)
    else:
        bottom.set(xlabel="class")
    numbers = {
        "seeds": [made.results["seed"] for made in runs],
        "classes": [
            {
                "name": names[index],
                "noisy": runs[0].results["groups"][index]["noisy"],
                **{key: [_or_none(v) for v in value[:, at]] for key, value in values.items()},
            }
            for at, index in enumerate(order)
        ],
    }
    return Drawn(figure, numbers)


def _gather(runs: Sequence[Made], read: Any) -> np.ndarray:
    rows = [[read(group) for group in made.results["groups"]] for made in runs]
    return np.array([[np.nan if v is None else v for v in row] for row in rows], np.float64)


def _spread(shares: np.ndarray) -> np.ndarray | None:
    """The standard error over runs, in percent; None of a single one."""
    if len(shares) < 2:
        return None
    return 100 * shares.std(axis=0, ddof=1) / np.sqrt(len(shares))


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
