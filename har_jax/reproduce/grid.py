"""The runs of a table: which there are, and what they say together."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from ml_collections import config_dict

from har_jax.config import validate
from har_jax.experiment.build import make_source
from har_jax.experiment.runs import Results, Run, execute
from har_jax.report.long_tail import SHOTS
from har_jax.reproduce.tables import Column, Paper, Row, Table
from har_jax.tune.choice import choose
from har_jax.tune.scores import FRACTION, scores
from har_jax.tune.trials import make_trial


@dataclasses.dataclass(frozen=True)
class Scale:
    """How large the runs of a table are.

    Attributes:
      shrink: Makes a full-size config smaller, in place.
      strengths: By config key, those among which the best is looked for.
    """

    shrink: Callable[[config_dict.ConfigDict], None]
    strengths: Mapping[str, tuple[float, ...]]


@dataclasses.dataclass(frozen=True)
class Grid:
    """Some settings of a table, and some seeds.

    Attributes:
      table: What its rows and columns are.
      scale: How large the runs are.
      settings: Some of the table's.
      seeds: All are run in every setting; strengths are chosen with the first.
      workdir: Holds ``SETTING/seed-S/RUN`` and ``SETTING/tuning-seed-S/RUN``.
      data_dir: Of every config.
    """

    table: Table
    scale: Scale
    settings: Sequence[str]
    seeds: Sequence[int]
    workdir: pathlib.Path
    data_dir: str | None = None

    def check(self) -> None:
        """Raises :class:`har_jax.config.ConfigError` if a run's config is impossible."""
        for setting in self.settings:
            for row in _possible(self.table.rows, setting).values():
                self._run(setting, self.seeds[0], [row])

    def find_data(self) -> None:
        """Raises :class:`har_jax.data.DataError` if data are not there and cannot be fetched."""
        configs = [self.table.settings[name]() for name in self.settings]
        for config in {config.data.source: config for config in configs}.values():
            config.data.data_dir = self.data_dir
            make_source(config.data)

    def make(self, paper: Paper, jobs: int) -> dict[str, Any]:
        """Makes all runs and gathers their numbers.

        Returns:
          ``columns``, the names of those that the settings fill; ``rows``, by name all of the
          paper's, then those that are ``ours``: ``method``, ``implemented`` and one of ``cells``
          for each column; ``tuning``, one for each setting and key. A cell holds ``here`` and
          ``paper``, or None for what is not there: ``mean`` and ``std``, in percent, and
          ``values`` by seed. A ``std`` is of two values or more. Runs that diverged or ended have
          None; ``ended`` has each ``seed`` of the latter with the ``reason``. A cell's
          ``impossible`` says why it has nothing here, or is None.
        """
        fixed = {name: row for name, row in self.table.rows.items() if row.tunes is None}
        tuned = {name: row for name, row in self.table.rows.items() if row.tunes is not None}
        trials = {
            (setting, row): self._trials(setting, row)
            for setting in self.settings
            for row in _possible(tuned, setting).values()
        }
        plan = self._plan({setting: _possible(fixed, setting) for setting in self.settings})
        # First what needs no tuning, and the tuning itself; then what was tuned.
        first = [*plan.values(), *(run for runs in trials.values() for run in runs.values())]
        made = _execute(first, jobs)
        tuning = {
            place: self._choose(*place, {s: made[run.workdir] for s, run in runs.items()})
            for place, runs in trials.items()
        }
        plan |= self._plan(
            {
                setting: {
                    name: row.with_strength(tuning[setting, row]["chosen"])
                    for name, row in _possible(tuned, setting).items()
                }
                for setting in self.settings
            }
        )
        made |= _execute([run for run in plan.values() if run.workdir not in made], jobs)
        results = {place: made[run.workdir] for place, run in plan.items()}
        return {**self._numbers(paper, results), "tuning": list(tuning.values())}

    def _numbers(
        self, paper: Paper, results: Mapping[tuple[str, str, int], Results | None]
    ) -> dict[str, Any]:
        rows = self.table.rows
        ours = {name: (None,) * len(paper.columns) for name in rows if name not in paper.rows}
        columns = [
            (index, column)
            for index, column in enumerate(self.table.columns)
            if column.setting in self.settings
        ]
        return {
            "columns": [paper.columns[index] for index, _ in columns],
            "rows": {
                name: {
                    "ours": name in ours,
                    "implemented": name in rows,
                    "method": rows[name].method if name in rows else None,
                    "cells": [
                        self._cell(name, column, results) | {"paper": _reported(cells[index])}
                        for index, column in columns
                    ],
                }
                for name, cells in {**paper.rows, **ours}.items()
            },
        }

    def _plan(self, rows: Mapping[str, Mapping[str, Row]]) -> dict[tuple[str, str, int], Run]:
        """The run of every (row, setting, seed); rows of the same config share one."""
        plan = {}
        for setting, by_name in rows.items():
            for seed in self.seeds:
                for name, row in by_name.items():
                    alike = [r for r in by_name.values() if r.overrides == row.overrides]
                    plan[name, setting, seed] = self._run(setting, seed, alike)
        return plan

    def _run(self, setting: str, seed: int, rows: Sequence[Row]) -> Run:
        overrides = rows[0].overrides
        config = self._config(setting, overrides, seed)
        config.methods = tuple(dict.fromkeys(row.method for row in rows))
        validate(config)
        return Run(config, self.workdir / setting / f"seed-{seed}" / _folder(overrides))

    def _trials(self, setting: str, row: Row) -> dict[float, Run]:
        """The row with every strength, tested on a part of the training set."""
        assert row.tunes is not None
        runs = {}
        for strength in self.scale.strengths[row.tunes]:
            overrides = row.with_strength(strength).overrides
            config = self._config(setting, overrides, self.seeds[0])
            make_trial(config, row.method, FRACTION)
            validate(config)
            folder = self.workdir / setting / f"tuning-seed-{self.seeds[0]}" / _folder(overrides)
            runs[strength] = Run(config, folder)
        return runs

    def _choose(
        self, setting: str, row: Row, results: Mapping[float, Results | None]
    ) -> dict[str, Any]:
        shares = scores([[of] for of in results.values()], row.method, "mean_per_group")
        choice = choose(list(results), shares)
        percents = [None if share != share else 100 * share for share in shares[:, 0].tolist()]
        return {
            "setting": setting,
            "key": row.tunes,
            "seed": self.seeds[0],
            "chosen": list(results)[choice.best],
            "accuracies": list(zip(results, percents, strict=True)),
        }

    def _config(
        self, setting: str, overrides: Mapping[str, Any], seed: int
    ) -> config_dict.ConfigDict:
        config = self.table.settings[setting]()
        config.update_from_flattened_dict(dict(overrides))
        self.scale.shrink(config)
        config.data.data_dir = self.data_dir
        config.seed = seed
        return config

    def _cell(
        self, name: str, column: Column, results: Mapping[tuple[str, str, int], Results | None]
    ) -> dict[str, Any]:
        row = self.table.rows.get(name)
        if row is None or column.setting in row.impossible:
            impossible = row and row.impossible[column.setting]
            return {"here": None, "impossible": impossible, "ended": []}
        of_seed = {seed: results[name, column.setting, seed] for seed in self.seeds}
        values = [_percent(of, row.method, column) for of in of_seed.values()]
        if self.table.is_error:
            values = [None if value is None else 100 - value for value in values]
        there = [value for value in values if value is not None]
        here = {
            "values": values,
            "mean": float(np.mean(there)) if there else None,
            "std": float(np.std(there, ddof=1)) if len(there) > 1 else None,
        }
        ended = [
            {"seed": seed, "reason": reason}
            for seed, of in of_seed.items()
            if (reason := (of or {}).get("ended", {}).get(row.method))
        ]
        return {"here": here, "impossible": None, "ended": ended}


def _execute(runs: Sequence[Run], jobs: int) -> dict[pathlib.Path, Results | None]:
    once = {run.workdir: run for run in runs}
    return dict(zip(once, execute(list(once.values()), jobs), strict=True))


def _possible(rows: Mapping[str, Row], setting: str) -> dict[str, Row]:
    return {name: row for name, row in rows.items() if setting not in row.impossible}


def _folder(overrides: Mapping[str, Any]) -> str:
    """The name of a run: what it changes in the setting."""
    changes = [f"{key.rpartition('.')[2]}={_short(value)}" for key, value in overrides.items()]
    return ",".join(changes) or "default"


def _short(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:g}"
    return "-".join(re.findall(r"[\w.]+", str(value)))


def _percent(results: Results | None, method: str, column: Column) -> float | None:
    """What a column says of a run."""
    if results is None or method in results.get("ended", {}):
        return None
    means = results["means"][method]
    if column.part in means:
        share = means[column.part][f"{column.split}_accuracy"]
    elif column.part in SHOTS:
        share = results["class_means"][method][column.part]
    else:
        (group,) = (group for group in results["groups"] if group["name"] == column.part)
        share = group["methods"][method][f"{column.split}_accuracy"]
    return None if share is None else 100 * share


def _reported(cell: tuple[float, ...] | None) -> dict[str, float | None] | None:
    if cell is None:
        return None
    return {"mean": cell[0], "std": cell[1] if len(cell) > 1 else None}
