"""The report as one HTML page that needs no other file."""

import html
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from har_jax.files import write_text
from har_jax.report import figures
from har_jax.report.results import Inputs, notes
from har_jax.report.selection import shown
from har_jax.report.table import fold_rows, rows_of
from har_jax.terminal import brief

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
tr.mean td { font-weight: bold }
svg { max-width: 100%; height: auto }
pre { background: #f5f5f5; padding: 1rem; overflow-x: auto }
"""

_EVALUATED = {
    "test": "the test set, whose labels are as the source has them",
    "validation": "a part of the training set that was held out, noisy labels and all",
}


def write_page(path: pathlib.Path, inputs: Inputs, results: Mapping[str, Any]) -> None:
    """Writes the page."""
    methods = list(inputs.evaluations)
    results, left_out = shown(results)
    title = f"{' and '.join(methods)} on {inputs.config['data.source']}"
    sections = [
        ("What was gained", _verdict(results)),
        (
            "Groups",
            _table(results)
            + "<p>n: training examples; val. error: of a model trained on the other part; I: the "
            "same, shrunk towards that of all groups as far as it is uncertain, where the config "
            "asks for it; tau = I<sup>3/5</sup> / q<sup>2/5</sup>; strength: &lambda;&tau;; "
            f"accuracy: on {_EVALUATED[inputs.config['data.evaluate_on']]}. Errors and accuracies "
            f"are in percent; behind &plusmn; stands a standard error. "
            f"{html.escape(left_out)}</p>{_folds(results)}",
        ),
        ("Accuracy", figures.accuracies(inputs, results) + _other_tests(results)),
        (
            "Losses of the training examples",
            figures.loss_histograms(inputs)
            + "<p>clean: a right label in a frequent group; rare: a right label in a rare group; "
            "noisy: a wrong label.</p>",
        ),
        (
            "Training",
            figures.training_curves(inputs.metrics)
            + "<p>On augmented batches, with the labels that are trained on, wrong ones too."
            f"{_notes(results)}</p>",
        ),
        ("Data", _listing(results["data"])),
        ("Config", _listing(results["config"])),
    ]
    body = "\n".join(f"<h2>{html.escape(head)}</h2>\n{text}" for head, text in sections)
    write_text(
        path,
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n</body>\n</html>\n",
    )


def _verdict(results: Mapping[str, Any]) -> str:
    """One sentence a part of the groups: each method against the first."""
    first, *others = results["means"]
    sentences = []
    for method in others:
        for part, mean in results["means"][method].items():
            reference = results["means"][first][part]["test_accuracy"]
            if mean["test_accuracy"] is not None:
                gain = 100 * (mean["test_accuracy"] - reference)
                sentences.append(
                    f"<li>{html.escape(method)} against {html.escape(first)}, {part} groups: "
                    f"{100 * reference:.1f} &rarr; {100 * mean['test_accuracy']:.1f} "
                    f"({gain:+.1f} points)</li>"
                )
    return f"<ul>{''.join(sentences)}</ul>" if sentences else "<p>One method was trained.</p>"


def _other_tests(results: Mapping[str, Any]) -> str:
    """One sentence a test set and method."""
    percent = lambda share: "none" if share is None else f"{100 * share:.1f}"
    lines = [
        f"{method} on {name}: top-1 {percent(of['accuracy'])}, top-5 {percent(of['top5'])} percent"
        for name, methods in results["other_tests"].items()
        for method, of in methods.items()
    ]
    return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def _notes(results: Mapping[str, Any]) -> str:
    return html.escape("".join(f" {line}." for line in notes(results)))


def _table(results: Mapping[str, Any]) -> str:
    head, rows, groups = rows_of(results)
    body = [_row(row, "td", "mean" if index >= groups else "") for index, row in enumerate(rows)]
    return f"<table>{_row(head, 'th', '')}{''.join(body)}</table>"


def _folds(results: Mapping[str, Any]) -> str:
    """The errors of each fold by itself, where there are several."""
    head, *rows = fold_rows(results)
    if len(head) < 4:  # one fold, which is the pooled one
        return ""
    body = "".join(_row(row, "td", "") for row in rows)
    return f"<p>Validation errors by fold:</p><table>{_row(head, 'th', '')}{body}</table>"


def _row(cells: Sequence[str], tag: str, css: str) -> str:
    inner = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
    return f'<tr class="{css}">{inner}</tr>'


def _listing(values: Mapping[str, Any]) -> str:
    as_text = lambda value: brief(value) if " in all)" in brief(value) else json.dumps(value)
    lines = [f"{key}: {as_text(value)}" for key, value in values.items()]
    return f"<pre>{html.escape(chr(10).join(lines))}</pre>"
