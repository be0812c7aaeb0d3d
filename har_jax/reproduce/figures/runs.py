"""The runs that figures are of: those that exist in folders, or are made."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ml_collections import config_dict

from har_jax.config import ConfigError, base, files, validate
from har_jax.experiment.runs import Run, execute
from har_jax.experiment.workdir import StageError


@dataclasses.dataclass(frozen=True)
class Made:
    """A run that is complete.

    Attributes:
      workdir: Where it is.
      results: What its ``results.json`` holds.
    """

    workdir: pathlib.Path
    results: Mapping[str, Any]

    @property
    def config(self) -> Mapping[str, Any]:
        """By dotted key."""
        return self.results["config"]


def existing(folders: Sequence[pathlib.Path]) -> list[Made]:
    """All complete runs in these folders, at any depth, in the order of their names.

    Raises:
      StageError: if there are none in one of them.
    """
    found = []
    for folder in folders:
        paths = sorted(folder.glob("**/report/results.json"))
        if not paths:
            raise StageError(f"--runs={folder} holds no complete run: no report/results.json")
        found += [Made(path.parent.parent, json.loads(path.read_text())) for path in paths]
    return found


def make(
    config_file: str,
    folder: pathlib.Path,
    seeds: Iterable[int],
    strengths: Sequence[float],
    jobs: int,
) -> list[Made]:
    """Makes the runs of a config with each seed and strength, by ``erm``, ``uniform``, ``har``.

    Plain training has no strength, and is made with the first of them only.

    Args:
      config_file: A config file, or the name of one that comes with the package.
      folder: Holds ``seed-S/strength-T``.
      seeds: Of the config.
      strengths: The largest of HAR, that of uniform regularization; none: the config's own.
      jobs: How many at once.

    Raises:
      ConfigError: if there is no such file, or its config is impossible.
    """
    runs = []
    for seed in seeds:
        for strength in strengths or (None,):
            config = _config(config_file)
            config.seed = seed
            first = not strengths or strength == strengths[0]
            config.methods = ("erm", "uniform", "har") if first else ("uniform", "har")
            name = "own"
            if strength is not None:
                config.regularizer.strength = config.regularizer.uniform_strength = strength
                name = f"{strength:g}"
            validate(config)
            runs.append(Run(config, folder / f"seed-{seed}" / f"strength-{name}"))
    results = execute(runs, jobs)
    complete = [Made(r.workdir, of) for r, of in zip(runs, results, strict=True) if of is not None]
    if not complete:
        raise StageError(f"every run in {folder} diverged: nothing can be drawn")
    return complete


def config_of(made: Made) -> config_dict.ConfigDict:
    """The config of a run, from its report.

    Raises:
      ConfigError: if it is of another version.
    """
    config = base()
    known = {key: _as_tuple(value) for key, value in made.config.items() if value is not None}
    known.pop("devices", None)  # how many there were then
    try:
        config.update_from_flattened_dict(known)
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{made.workdir} is of a config that is not of this version: {error}"
        ) from error
    validate(config)
    return config


def _config(given: str) -> config_dict.ConfigDict:
    file = files.find(given)
    if file is None:
        raise ConfigError(
            f"--config={given} is neither a file nor one of {', '.join(files.packaged())}"
        )
    try:
        return files.load(file)
    except Exception as error:  # a config file is a program, and can fail in any way
        raise ConfigError(files.failure(error)) from error


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value
