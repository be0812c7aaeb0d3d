"""The report as one HTML page that needs no other file."""

import itertools
import json
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jinja2

from har_jax.report import figures
from har_jax.report.comparison import (
    Column,
    are_many,
    by_shot,
    clean_labels_seen,
    compared,
    on_other_tests,
)
from har_jax.report.frequency import by_frequency
from har_jax.report.gallery import gallery
from har_jax.report.neighbourhoods import table_of, told
from har_jax.report.relabel import told as of_suspicion
from har_jax.report.results import Inputs, notes
from har_jax.report.selection import shown
from har_jax.report.table import fold_rows, rows_of
from har_jax.system.files import write_text
from har_jax.system.terminal import brief

_EVALUATED = {
    "test": "the test set, whose labels are as the source has them",
    "validation": "a part of the training set that was held out, noisy labels and all",
}


def write_page(path: pathlib.Path, inputs: Inputs, results: Mapping[str, Any]) -> None:
    """Writes the page, made of ``page.html``, in which all but the figures is escaped."""
    methods = _methods(results)
    results, left_out = shown(results)
    head, *groups = rows_of(results)
    tail = by_shot(results)
    said_above = {*told(results), *of_suspicion(results)}
    template = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    ).get_template("page.html")
    page = template.render(
        title=f"{_title(inputs.evaluations)} on {inputs.config['data.source']}",
        methods=methods,
        clean_labels=clean_labels_seen(results),
        first=next(iter(inputs.evaluations)),
        gains=_gains(results),
        groups=([cell[-1] if methods else " ".join(cell) for cell in head], *groups),
        over=_over(head) if methods else [],
        evaluated=_EVALUATED[inputs.config["data.evaluate_on"]],
        left_out=left_out,
        folds=_folds(results),
        neighbourhoods=table_of(results),
        adaptation=told(results),
        gallery=gallery(inputs, results, path.parent),
        relabel=results["suspicion"] is not None,
        tail=tail,
        other_tests=_other_tests(results),
        notes=[note for note in notes(results) if note not in said_above],
        data=_lines(results["data"]),
        config=_lines(results["config"]),
        figures={
            "accuracies": figures.accuracies(inputs, results),
            "tail": by_frequency(results) if tail else "",
            "losses": figures.loss_histograms(inputs),
            "curves": figures.training_curves(inputs.metrics, inputs.evaluations),
        },
    )
    write_text(path, page)


def _title(methods: Collection[str]) -> str:
    return f"{len(methods)} methods" if are_many(methods) else " and ".join(methods)


def _methods(results: Mapping[str, Any]) -> list[Column]:
    """The table of methods, where they are many."""
    if not are_many(results["means"]):
        return []
    return [*compared(results), *on_other_tests(results), *clean_labels_seen(results)]


def _over(head: Sequence[Sequence[str]]) -> list[tuple[str, int]]:
    """What methods' names in the head stand under, and how many of them; not of the first cell."""
    what = [cell[0] if len(cell) > 1 else "" for cell in head[1:]]
    return [(name, len(list(same))) for name, same in itertools.groupby(what)]


def _gains(results: Mapping[str, Any]) -> list[str]:
    """One sentence a part of the groups: each method against the first."""
    first, *others = results["means"]
    sentences = []
    for method in others:
        for part, mean in results["means"][method].items():
            reference = results["means"][first][part]["test_accuracy"]
            if mean["test_accuracy"] is not None:
                now, before = 100 * mean["test_accuracy"], 100 * reference
                sentences.append(
                    f"{method} against {first}, {part} groups: {before:.1f} \N{RIGHTWARDS ARROW} "
                    f"{now:.1f} ({now - before:+.1f} points)"
                )
    return sentences


def _other_tests(results: Mapping[str, Any]) -> list[str]:
    """One sentence a test set and method."""
    percent = lambda share: "none" if share is None else f"{100 * share:.1f}"
    return [
        f"{method} on {name}: top-1 {percent(of['accuracy'])}, top-5 {percent(of['top5'])} percent"
        for name, methods in results["other_tests"].items()
        for method, of in methods.items()
    ]


def _folds(results: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[str]], int] | None:
    """The errors of each fold by itself; None of one fold, which is the pooled one."""
    head, *rows = fold_rows(results)
    return None if len(head) < 4 else (head, rows, len(rows))


def _lines(values: Mapping[str, Any]) -> list[str]:
    as_text = lambda value: brief(value) if " in all)" in brief(value) else json.dumps(value)
    return [f"{key}: {as_text(value)}" for key, value in values.items()]
