"""The report as tables of plain text."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from har_jax.report.comparison import (
    Column,
    are_many,
    by_shot,
    compared,
    number,
    parts_of,
    percent,
)
from har_jax.report.long_tail import new_shots
from har_jax.report.selection import shown

_SAYS = {  # of columns
    "n": "training examples",
    "mislabelled": "those with a wrong label",
    "val. error": "of models that did not see them",
    "I": "the same, shrunk",
    "tau": "I^(3/5) / q^(2/5), q its share of the examples",
    "strength": "what R is multiplied by",
}
_WIDTH = 100


def rows_of(results: Mapping[str, Any]) -> tuple[list[tuple[str, ...]], list[list[str]], int]:
    """The table's head, its rows, and how many of these are groups, before the means.

    A cell of the head is what the column has, and of which method, if it is one's. What only a
    protocol that corrupts labels knows is left out where there is none.
    """
    methods = list(results["means"])
    regularized = [m for m in methods if results["means"][m]["all"]["strength"]]
    estimated = any(group["tau"] is not None for group in results["groups"])
    smoothed = any(map(_is_smoothed, results["groups"]))
    corrupted = any(group["noisy"] or group["mislabelled"] for group in results["groups"])
    names = [
        "group",
        "n",
        *(["mislabelled"] if corrupted else []),
        *(["val. error"] if estimated else []),
        *(["I"] if smoothed else []),
        *(["tau"] if estimated else []),
    ]
    blanks = [""] * (len(names) - 1)
    head: list[tuple[str, ...]] = [(name,) for name in names]
    head += [("strength", method) for method in regularized]
    head += [("accuracy", method) for method in methods]
    rows = []
    for group in results["groups"]:
        marks = [mark for mark in ("noisy", "rare") if group[mark]]
        name = f"{group['name']} ({', '.join(marks)})" if marks else group["name"]
        row = [name, str(group["n"]), *([str(group["mislabelled"])] if corrupted else [])]
        if estimated:
            row += [_error(group), *([percent(group["noise"])] if smoothed else [])]
            row += [number(group["tau"])]
        row += [number(group["methods"][m]["strength"]) for m in regularized]
        row += [percent(group["methods"][method]["test_accuracy"]) for method in methods]
        rows.append(row)
    for part in parts_of(results):
        row = [f"mean of {part} groups", *blanks]
        row += [number(results["means"][m][part]["strength"]) for m in regularized]
        row += [percent(results["means"][method][part]["test_accuracy"]) for method in methods]
        rows.append(row)
    return head, rows, len(results["groups"])


def _is_smoothed(group: Mapping[str, Any]) -> bool:
    noise, error = group["noise"], group["validation_error"]
    if noise is None or error is None:
        return noise is not error
    return not math.isclose(noise, error)


def fold_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """The validation errors of every group, as each fold has them, and pooled; first a head."""
    groups = results["groups"]
    folds = range(len(groups[0]["folds"]))
    head = ["group", *(f"fold {fold}" for fold in folds), "pooled"]
    return [
        head,
        *([g["name"], *(_error(fold) for fold in g["folds"]), _error(g)] for g in groups),
    ]


def format_table(results: Mapping[str, Any]) -> str:
    """Lays the table out for a terminal; accuracies and errors are in percent.

    It has a row for each group, or for each method where these are many. Means over the many-,
    medium- and few-shot classes come below, where these are not what is there already.
    """
    if are_many(results["means"]):
        return _table_of_methods(results)
    results, left_out = shown(results)
    head, rows, groups = rows_of(results)
    rows += _rows_of_shots(results, len(head))
    lines = lay_out([" ".join(cell) for cell in head], rows, groups)
    return "\n".join([*lines, *([left_out] if left_out else []), *_legend(head)])


def _legend(head: Sequence[Sequence[str]]) -> list[str]:
    columns = dict.fromkeys(cell[0] for cell in head)
    said = [f"{name}: {_SAYS[name]}" for name in columns if name in _SAYS]
    return textwrap.wrap("; ".join([*said, "accuracies and errors are in percent"]), _WIDTH)


def _rows_of_shots(results: Mapping[str, Any], width: int) -> list[list[str]]:
    means = results["class_means"].values()
    blanks = [""] * (width - 1 - len(means))
    return [
        [f"mean of {shot}-shot classes", *blanks, *(percent(mean[shot]) for mean in means)]
        for shot in new_shots(results)
    ]


def _table_of_methods(results: Mapping[str, Any]) -> str:
    first = next(iter(results["means"]))
    said = (
        f"mean accuracy of groups, in percent, and gain over {first}, in points; "
        "groups are in index.html and groups.csv"
    )
    lines = [*_side_by_side(compared(results)), said]
    if new_shots(results):
        lines += ["", *_side_by_side(by_shot(results))]
        lines.append("accuracy in percent; many-, medium- and few-shot: means over classes")
    return "\n".join(lines)


def _side_by_side(columns: Sequence[Column]) -> list[str]:
    rows = list(zip(*(column.cells for column in columns), strict=True))
    return lay_out([column.head for column in columns], rows, len(rows))


def lay_out(head: Sequence[str], rows: Sequence[Sequence[str]], above: int) -> list[str]:
    """Lines, with one of dashes behind the head, and behind so many rows."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    dashes = "-" * (sum(widths) + 2 * (len(widths) - 1))
    lines = [_line(row, widths) for row in rows]
    return [_line(head, widths), dashes, *lines[:above], dashes, *lines[above:]]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def _error(group: Mapping[str, Any]) -> str:
    spread = group["validation_standard_error"]
    error = percent(group["validation_error"])
    return error if spread is None else f"{error} ± {percent(spread)}"
