"""The report as a table of plain text."""

from collections.abc import Mapping, Sequence
from typing import Any

from har_jax.report.selection import shown


def rows_of(results: Mapping[str, Any]) -> tuple[list[str], list[list[str]], int]:
    """The table's head, its rows, and how many of these are groups, before the means.

    What only a protocol that corrupts labels knows is left out where there is none.
    """
    methods = list(results["means"])
    regularized = [m for m in methods if results["means"][m]["all"]["strength"]]
    estimated = any(group["tau"] is not None for group in results["groups"])
    smoothed = any(group["noise"] != group["validation_error"] for group in results["groups"])
    corrupted = any(group["noisy"] or group["mislabelled"] for group in results["groups"])
    head = [
        "group",
        "n",
        *(["mislabelled"] if corrupted else []),
        *(["val. error"] if estimated else []),
        *(["I"] if smoothed else []),
        *(["tau"] if estimated else []),
    ]
    blanks = [""] * (len(head) - 1)
    head += [f"strength {method}" for method in regularized]
    head += [f"accuracy {method}" for method in methods]
    rows = []
    for group in results["groups"]:
        marks = [mark for mark in ("noisy", "rare") if group[mark]]
        name = f"{group['name']} ({', '.join(marks)})" if marks else group["name"]
        row = [name, str(group["n"]), *([str(group["mislabelled"])] if corrupted else [])]
        if estimated:
            row += [_error(group), *([_percent(group["noise"])] if smoothed else [])]
            row += [_number(group["tau"])]
        row += [_number(group["methods"][m]["strength"]) for m in regularized]
        row += [_percent(group["methods"][method]["test_accuracy"]) for method in methods]
        rows.append(row)
    for part, mean in next(iter(results["means"].values())).items():
        if mean["strength"] is None or (part == "clean" and not corrupted):
            continue
        row = [f"mean of {part} groups", *blanks]
        row += [_number(results["means"][m][part]["strength"]) for m in regularized]
        row += [_percent(results["means"][method][part]["test_accuracy"]) for method in methods]
        rows.append(row)
    return head, rows, len(results["groups"])


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
    """Lays the table out for a terminal; accuracies and errors are in percent."""
    results, left_out = shown(results)
    head, rows, groups = rows_of(results)
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    line = "-" * (sum(widths) + 2 * (len(widths) - 1))
    layout = [_line(head, widths), line]
    layout += [_line(row, widths) for row in rows[:groups]]
    layout += [line, *(_line(row, widths) for row in rows[groups:])]
    layout += [left_out] if left_out else []
    return "\n".join(layout)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _error(group: Mapping[str, Any]) -> str:
    spread = group["validation_standard_error"]
    error = _percent(group["validation_error"])
    return error if spread is None else f"{error} ± {_percent(spread)}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
