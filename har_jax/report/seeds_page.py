"""The report of several seeds, or of several runs: a page, and the files beside it."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from har_jax.report import dots, figures, rendering
from har_jax.report.runs import Run, Series, compare, is_needed, series_of
from har_jax.report.seeds import answer, as_csv, by_seed, columns, format_numbers
from har_jax.report.styles import themed
from har_jax.system.files import write_json, write_text


def report(
    runs: Sequence[Run], path: pathlib.Path, *, title: str, missing: Mapping[int, str]
) -> list[str]:
    """Compares what was trained in several runs, and writes it.

    Args:
      runs: In the order in which methods are to be shown; gains are over the first one's first.
      path: Of the page; ``NAME.json`` and ``NAME.csv`` go beside it, by ``seeds`` where the page is
        an ``index.html``, and by the page's own name elsewhere.
      title: Of the page.
      missing: The seeds that there are no numbers of, and why.

    Returns:
      Lines for a terminal, the answer first.

    Raises:
      RunError: if the runs cannot be compared.
    """
    series = series_of(runs)
    numbers, notes = compare(series)
    notes += [f"seed {seed} is missing: {why}" for seed, why in missing.items()]
    told = answer(numbers, is_needed=_is_needed(series))
    name = "seeds" if path.stem == "index" else path.stem
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {
        "answer": told,
        "missing": {str(seed): why for seed, why in missing.items()},
        "runs": [str(run.folder) for run in runs],
        "notes": notes,
        **numbers,
    }
    write_json(path.with_name(f"{name}.json"), whole)
    write_text(path.with_name(f"{name}.csv"), as_csv(numbers))
    _write_page(path, series, numbers, runs, answer=told, title=title, notes=notes, name=name)
    return [told, "", format_numbers(numbers), *notes, f"report: {path}"]


def _write_page(
    path: pathlib.Path,
    series: Sequence[Series],
    numbers: Mapping[str, Any],
    runs: Sequence[Run],
    *,
    answer: str,
    title: str,
    notes: Sequence[str],
    name: str,
) -> None:
    figure = dots.gains(numbers, {one.label: one.method for one in series})
    configs = [{**run.results["config"], "seed": None} for run in runs]
    changed, rest = rendering.split_config({**configs[0], "seed": 0})
    head, *rows = by_seed(numbers)
    gains = [of["gain"] for row in numbers["rows"].values() for of in row["parts"].values()]
    rendering.write(
        path,
        "seeds.html",
        title=title,
        answer=answer,
        notes=notes,
        methods=columns(numbers),
        first=numbers["first"],
        alone=any(gain is not None and gain["over"] != "seeds" for gain in gains),
        csv=f"{name}.csv",
        gains="" if figure is None else themed(figures.svg(figure), "gains with their intervals"),
        by_seed=(head, rows, len(rows)),
        parts=numbers["parts"],
        runs=[(str(run.folder), _link(run, path)) for run in runs],
        changed=rendering.lines(changed),
        several_configs=any(config != configs[0] for config in configs),
        config=rendering.lines(rest),
    )


def _link(run: Run, page: pathlib.Path) -> str:
    """To the run's own page, from this one; nothing where that is gone."""
    there = run.folder / "report" / "index.html"
    if not there.exists():
        return ""
    try:
        relative = os.path.relpath(there.absolute(), page.absolute().parent)
    except ValueError:  # on another drive
        return there.absolute().as_uri()
    return pathlib.PurePath(relative).as_posix()


def _is_needed(series: Sequence[Series]) -> bool | None:
    """Of the last method, where that regularizes groups differently."""
    last = series[-1]
    adapts = any(
        len({group["methods"][last.method]["strength"] for group in run.results["groups"]}) > 1
        for run in last.runs.values()
    )
    return is_needed(list(last.runs.values())) if adapts else None
