"""A reproduced table as text and as a plot, each number beside the paper's.

What is rendered is the dictionary that ``table.json`` holds, most of which
:meth:`har_jax.reproduce.grid.Grid.make` makes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from har_jax.report.figures import svg

_OURS = "not in the paper:"


def rows_of(results: Mapping[str, Any]) -> Iterator[list[str]]:
    """The table as the paper lays it out: its head, its rows, then ours."""
    yield ["method", *results["columns"]]
    notes, told = _notes(results), False
    for name, row in results["rows"].items():
        if row["ours"] and not told:
            yield [_OURS, *("" for _ in row["cells"])]
            told = True
        yield [name, *(_beside(cell, notes) for cell in row["cells"])]


def terminal(results: Mapping[str, Any]) -> str:
    """The table in plain text."""
    rows = list(rows_of(results))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join([*lines, *_told(results)])


def markdown(results: Mapping[str, Any]) -> str:
    """The table; the gains over ERM; every seed; how strengths were chosen; what was run."""
    seeds = results["seeds"]
    unit, *_ = results["metric"].split(",")
    lines = [
        f"**{results['title']}.** {unit}: mean ± standard deviation over seeds "
        f"{', '.join(map(str, seeds))}, and in parentheses the paper's number.",
        "",
    ]
    if results["scale"] != "full":
        lines += [
            f"Scale `{results['scale']}` is a reduction. The paper's numbers are of the full size, "
            "and no target for it.",
            "",
        ]
    lines += [*_markdown_table(list(rows_of(results))), ""]
    for note in _told(results):
        lines += [note, ""]
    if gains := list(_gains(results)):
        head = ["difference to ERM, paired by seed", *results["columns"]]
        lines += [*_markdown_table([head, *gains]), ""]
    head = ["by seed", *(str(seed) for seed in seeds)]
    lines += [*_markdown_table([head, *_by_seed(results)]), ""]
    for tuning in results["tuning"]:
        tried = ", ".join(f"{s:g}: {_number(a)}" for s, a in tuning["accuracies"])
        lines += [
            f"`{tuning['key']}` in {tuning['setting']} is {tuning['chosen']:g}, chosen by the mean "
            "accuracy over classes on a fifth of the noisy training set that was held out, seed "
            f"{tuning['seed']} only ({tried}).",
            "",
        ]
    machine = ", ".join(f"{key} {value}" for key, value in results["machine"].items())
    return "\n".join([*lines, f"`{results['command']}`", "", f"{machine}.", ""])


def plot(results: Mapping[str, Any]) -> str:
    """Bars for every column, ours beside the paper's, as SVG text."""
    rows = {name: row for name, row in results["rows"].items() if row["implemented"]}
    columns, ours = results["columns"], sum(row["ours"] for row in rows.values())
    figure = Figure(figsize=(max(4.0, 1.1 * len(rows)) * len(columns), 4), layout="constrained")
    panels = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
    x = np.arange(len(rows))
    for place, (axes, column) in enumerate(zip(panels, columns, strict=True)):
        cells = [row["cells"][place] for row in rows.values()]
        for shift, source, color in ((-0.2, "here", "#2ca02c"), (0.2, "paper", "#bbbbbb")):
            means = [_or(cell[source] and cell[source]["mean"], np.nan) for cell in cells]
            errors = [_or(cell[source] and cell[source]["std"], 0.0) for cell in cells]
            axes.bar(x + shift, means, 0.4, yerr=errors, capsize=3, color=color, label=source)
        if ours:
            axes.axvline(len(rows) - ours - 0.5, color="#777777", linewidth=0.8)
            left, top = len(rows) - ours - 0.45, 0.98
            axes.text(left, top, _OURS, transform=axes.get_xaxis_transform(), va="top")
        axes.set_xticks(x, list(rows), rotation=20, ha="right")
        axes.set_title(column, fontsize="medium")
    panels[0].set_ylabel("error (%)" if results["is_error"] else "accuracy (%)")
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return svg(figure)


def _notes(results: Mapping[str, Any]) -> dict[str, int]:
    """Why cells have nothing, or less than all seeds, numbered."""
    cells = (cell for row in results["rows"].values() for cell in row["cells"])
    reasons = dict.fromkeys(reason for cell in cells for reason in _reasons(cell))
    return {reason: number for number, reason in enumerate(reasons, 1)}


def _reasons(cell: Mapping[str, Any]) -> list[str]:
    impossible = [cell["impossible"]] if cell["impossible"] else []
    return [*impossible, *(f"seed {each['seed']}: {each['reason']}" for each in cell["ended"])]


def _told(results: Mapping[str, Any]) -> list[str]:
    return [f"[{number}] {reason}." for reason, number in _notes(results).items()]


def _beside(cell: Mapping[str, Any], notes: Mapping[str, int]) -> str:
    if cell["impossible"]:
        here = "-"
    else:
        here = _spread(cell["here"]) if cell["here"] else "not implemented yet"
    here = " ".join([here, *(f"[{notes[reason]}]" for reason in _reasons(cell))])
    return f"{here} ({_spread(cell['paper'])})" if cell["paper"] else here


def _spread(cell: Mapping[str, Any]) -> str:
    deviation = "" if cell["std"] is None else f" ± {cell['std']:.1f}"
    return _number(cell["mean"]) + deviation


def _gains(results: Mapping[str, Any]) -> Iterator[list[str]]:
    reference = next((row for row in results["rows"].values() if row["method"] == "erm"), None)
    for name, row in results["rows"].items():
        if reference is None or row is reference or not any(c["here"] for c in row["cells"]):
            continue
        pairs = zip(reference["cells"], row["cells"], strict=True)
        yield [name, *(_gain(before["here"], after["here"]) for before, after in pairs)]


def _gain(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if before is None or after is None:
        return "-"
    return " ".join(
        "-" if a is None or b is None else f"{b - a:+.1f}"
        for a, b in zip(before["values"], after["values"], strict=True)
    )


def _by_seed(results: Mapping[str, Any]) -> Iterator[list[str]]:
    for name, row in results["rows"].items():
        for column, cell in zip(results["columns"], row["cells"], strict=True):
            if cell["here"]:
                yield [f"{name}, {column}", *map(_number, cell["here"]["values"])]


def _markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return [head, "|" + " --- |" * len(rows[0]), *body]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value
