"""The report as one HTML page that needs no other file."""

import itertools
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from har_jax.report import dots, figures, rendering
from har_jax.report.answer import interval_of
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
from har_jax.report.styles import themed
from har_jax.report.table import fold_rows, rows_of

_EVALUATED = {
    "test": "the test set, whose labels are as the source has them",
    "validation": "a part of the training set that was held out, noisy labels and all",
}


def write_page(path: pathlib.Path, inputs: Inputs, results: Mapping[str, Any]) -> None:
    """Writes the page, made of ``page.html``, in which all but the figures is escaped."""
    methods, everything = _methods(results), results
    results, left_out = shown(results)
    head, *groups = rows_of(results)
    tail = by_shot(results)
    adaptation = told(results)
    said_above = {*adaptation, *of_suspicion(results)}
    changed, rest = rendering.split_config(results["config"])
    drawn = {
        "accuracies": (figures.accuracies(inputs, results), "accuracy by group"),
        "losses": (figures.loss_histograms(inputs), "losses of training examples"),
        "curves": (figures.training_curves(inputs.metrics, inputs.evaluations), "training curves"),
    }
    if tail:
        drawn["tail"] = (by_frequency(results), "accuracy by frequency of classes")
    if left_out:
        every = dots.every_group(everything["groups"], list(results["means"]))
        drawn["every"] = (figures.svg(every), "accuracies of all groups, sorted")
    rendering.write(
        path,
        "page.html",
        title=f"{_title(inputs.evaluations)} on {_what(inputs.config)}",
        answer=results["answer"],
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
        adaptation=adaptation,
        gallery=gallery(inputs, results, path.parent),
        relabel=results["suspicion"] is not None,
        tail=tail,
        other_tests=_other_tests(results),
        notes=[note for note in notes(results) if note not in said_above],
        data_told=_data(results["data"]),
        data=rendering.lines(results["data"]),
        changed=rendering.lines(changed),
        config=rendering.lines(rest),
        figures={"every": "", **{name: themed(*each) for name, each in drawn.items()}},
    )


def _data(data: Mapping[str, Any]) -> str:
    counts = [f"{data[f'{split}_examples']} {split}" for split in ("train", "test")]
    wrong = sum(data["mislabelled_count"] or ())
    return (
        f"{' and '.join(counts)} examples of {len(data['classes'])} classes"
        f"{f', {wrong} of the former mislabelled' if wrong else ''}."
    )


def _title(methods: Collection[str]) -> str:
    return f"{len(methods)} methods" if are_many(methods) else " and ".join(methods)


def _what(config: Mapping[str, Any]) -> str:
    """The source, and which folder or table it has."""
    of = config.get("data.root") or config.get("data.table")
    return f"{config['data.source']} {of}" if of else config["data.source"]


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
        for part, found in results["gains"][method].items():
            shares = (results["means"][name][part]["test_accuracy"] for name in (first, method))
            before, now = (100 * share for share in shares)
            sentences.append(
                f"{method} against {first}, {part} groups: {before:.1f} \N{RIGHTWARDS ARROW} "
                f"{now:.1f} ({now - before:+z.1f} points, {interval_of(found)})"
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
