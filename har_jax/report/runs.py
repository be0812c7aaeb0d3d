"""Runs that are there: what their reports hold, and what can be compared in them."""

import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from har_jax.report import neighbourhoods
from har_jax.report.answer import gains
from har_jax.report.paired import Difference
from har_jax.report.seeds import shares_of, side_by_side
from har_jax.system.files import damaged, read_arrays

_Key = tuple[str, str, int]  # a method, what it was made from, and which of those of that
_ANEW = "delete {} and run the same command again, which only makes the report anew"


class RunError(OSError):
    """A folder that holds no report, or reports that cannot be compared."""


class Run(NamedTuple):
    """One config at one seed.

    Attributes:
      folder: Its workdir.
      results: What its report holds.
    """

    folder: pathlib.Path
    results: Mapping[str, Any]

    @property
    def seed(self) -> int:
        return int(self.results["seed"])


class Series(NamedTuple):
    """One method with one config, at several seeds.

    Attributes:
      label: What tells it from the others.
      method: Its name.
      runs: By seed.
    """

    label: str
    method: str
    runs: Mapping[int, Run]


def read_runs(folder: pathlib.Path) -> list[Run]:
    """The run in a folder, or those of the seeds in it.

    Raises:
      RunError: if there is none, or one was made before reports had what is compared.
      OSError: if one is damaged.
    """
    found = [folder] if (folder / "report" / "results.json").exists() else []
    if not found:
        found = [path.parents[1] for path in folder.glob("seed-*/report/results.json")]
    if not found:
        raise RunError(
            f"{folder} has no report/results.json, and no seed-N/report/results.json: give the "
            "workdir of a run that has got as far as its report"
        )
    return sorted((read_run(path) for path in found), key=lambda run: run.seed)


def read_run(folder: pathlib.Path) -> Run:
    """The run of one seed in a folder; raises as :func:`read_runs` does."""
    path = folder / "report" / "results.json"
    try:
        results = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"{path} is not there: let the run go on to its report") from error
    except ValueError as error:
        raise damaged(path, error) from error
    if not isinstance(results, dict) or "test_digest" not in results:
        raise RunError(f"{path} is of an earlier version: {_ANEW.format(path.parent)}")
    return Run(folder, results)


def series_of(runs: Sequence[Run]) -> list[Series]:
    """The methods of runs: those that were trained in the same way, but for the seed, are one.

    A label is the method's name and what differs between those of that name.
    """
    members: dict[_Key, dict[int, Run]] = {}
    said: dict[_Key, Mapping[str, Any]] = {}
    for run in runs:
        for method in run.results["means"]:
            made = _made_from(run, method)
            for again in itertools.count():  # other data under the same config
                key = (method, json.dumps(made, sort_keys=True), again)
                said[key] = made
                there = members.setdefault(key, {}).setdefault(run.seed, run)
                if _are_the_same(there, run, method):
                    break
    labels = {key: _label(key, said) for key in members}
    several = {label for label in labels.values() if list(labels.values()).count(label) > 1}
    return [
        Series(
            f"{labels[key]} ({next(iter(of.values())).folder})"
            if labels[key] in several
            else labels[key],
            key[0],
            of,
        )
        for key, of in members.items()
    ]


def compare(series: Sequence[Series]) -> tuple[dict[str, Any], list[str]]:
    """Everything over the first of them, at the same seeds and on the same test examples.

    Returns:
      What :func:`har_jax.report.seeds.side_by_side` has, and what has to be said of it.

    Raises:
      RunError: if classes or groups are not the same.
    """
    first, *others = series
    _refuse_other_classes(series)
    notes, paired, alone = [], {}, {}
    for one in others:
        common = [seed for seed in one.runs if seed in first.runs]
        digest = lambda of, seed: of.runs[seed].results["test_digest"]
        paired[one.label] = [seed for seed in common if digest(one, seed) == digest(first, seed)]
        if other := [seed for seed in common if seed not in paired[one.label]]:
            notes.append(
                f"{one.label} was tested on other examples than {first.label} at seed "
                f"{', '.join(map(str, other))}: no gain is taken there"
            )
        if not common:
            notes.append(f"{one.label} and {first.label} have no seed in common: no gain is taken")
        if len(paired[one.label]) == 1:
            (seed,) = paired[one.label]
            alone[one.label] = _over_examples(first, one, seed)
    accuracies = {
        one.label: {seed: shares_of(run.results, one.method) for seed, run in one.runs.items()}
        for one in series
    }
    paired[first.label] = list(first.runs)
    return side_by_side(accuracies, first=first.label, paired=paired, alone=alone), notes


def is_needed(runs: Sequence[Run]) -> bool | None:
    """Whether there was anything to adapt to at any seed; None where nobody can tell."""
    told = [neighbourhoods.is_needed(run.results) for run in runs]
    known = [each for each in told if each is not None]
    return any(known) if known else None


def _made_from(run: Run, method: str) -> dict[str, Any]:
    """What a method's training depends on, by key, but for the seed."""
    path = run.folder / "train" / method / "stage.json"
    try:
        found = json.loads(path.read_text("utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):  # only the report was kept
        found = run.results["config"]
    return {key: value for key, value in found.items() if key not in ("seed", "methods", "devices")}


def _are_the_same(one: Run, other: Run, method: str) -> bool:
    """Whether a method has the same results in two runs of one config, so that one will do."""
    of = lambda run: (run.results["test_digest"], run.results["means"][method])
    return one is other or of(one) == of(other)


def _label(key: _Key, said: Mapping[_Key, Mapping[str, Any]]) -> str:
    method, *_ = key
    others = [made for other, made in said.items() if other[0] == method]
    keys = dict.fromkeys(name for made in others for name in made)
    differing = [
        name
        for name in keys
        if len({json.dumps(made.get(name), sort_keys=True) for made in others}) > 1
    ]
    values = (f"{name}={said[key].get(name)}" for name in differing)
    return " ".join((method, *values))


def _refuse_other_classes(series: Sequence[Series]) -> None:
    def names(run: Run) -> tuple[Any, ...]:
        groups = tuple(group["name"] for group in run.results["groups"])
        return tuple(run.results["data"]["classes"]), groups

    every = [run for one in series for run in one.runs.values()]
    for run in every:
        if names(run) != names(every[0]):
            raise RunError(
                f"{every[0].folder} and {run.folder} are of other classes or groups, so that their "
                "accuracies cannot be compared: leave one out"
            )


def _over_examples(first: Series, other: Series, seed: int) -> dict[str, Difference]:
    """Gains on the test examples that both could read; nothing where only reports were kept."""
    folders = {one.label: one.runs[seed].folder for one in (first, other)}
    try:
        test = read_arrays(folders[first.label] / "report" / "test.npz")
        said = {
            one.label: read_arrays(folders[one.label] / "train" / one.method / "evaluation.npz")
            for one in (first, other)
        }
    except FileNotFoundError:
        return {}
    predictions = {label: arrays["test_prediction"] for label, arrays in said.items()}
    read = np.all([prediction >= 0 for prediction in predictions.values()], axis=0)
    right = {label: (of == test["label"])[read] for label, of in predictions.items()}
    flags = first.runs[seed].results["groups"]
    parts = {
        "all": list(range(len(flags))),
        "noisy": [group["group"] for group in flags if group["noisy"]],
        "rare": [group["group"] for group in flags if group["rare"]],
        "clean": [group["group"] for group in flags if not group["noisy"]],
    }
    return gains(right, test["group"][read], parts)[other.label]
