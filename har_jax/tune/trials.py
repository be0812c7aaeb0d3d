"""The runs that strengths are chosen by."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence

from ml_collections import config_dict

from har_jax.config import ConfigError, own, validate
from har_jax.config.defaults import flatten
from har_jax.config.schema import SECTIONS
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.runs import Results, Run, execute
from har_jax.experiment.workdir import StageError
from har_jax.tune.candidates import Candidates
from har_jax.tune.scores import FRACTION

_SHARED = "shared"


@dataclasses.dataclass(frozen=True)
class Trials:
    """The runs with every value of some methods, at every seed.

    Attributes:
      config: Validated; that of the whole training set.
      tuned: What is tuned.
      seeds: All values are run at each.
      workdir: Holds ``seed-S/METHOD/OPTION=VALUE``, and ``seed-S/shared``, what the methods of a
        seed have in common.
      fraction: Of the training set, held out.
    """

    config: config_dict.ConfigDict
    tuned: Sequence[Candidates]
    seeds: Sequence[int]
    workdir: pathlib.Path
    fraction: float = FRACTION

    def check(self) -> None:
        """Looks at everything that can be wrong before data are read.

        Raises:
          ConfigError: if a config is impossible, or noise was estimated by another program.
          WorkdirError: if what is in the workdir was made from another config.
        """
        foreign, flat = self.config.estimate.probabilities, flatten(self.config)
        estimating = [each.method for each in self.tuned if own.estimates(each.method, flat)]
        if foreign is not None and estimating:
            raise ConfigError(
                f"config.estimate.probabilities={foreign!r} has a row for each example of the "
                f"training set, of which a part is held out to choose by: tune {estimating[0]} "
                "with --config.estimate.probabilities=None --config.estimate.labels=None, or the "
                "others alone"
            )
        for run in [*self.shared.values(), *self.runs.values()]:
            Experiment(run.config, run.workdir).refuse_other_config()

    @functools.cached_property
    def runs(self) -> dict[tuple[str, float, int], Run]:
        """By method, value and seed."""
        shared = {seed: run.workdir for seed, run in self.shared.items()}
        return {
            (each.method, value, seed): Run(
                self._configs[each.method, value, seed],
                self.workdir / f"seed-{seed}" / each.name / f"{each.option}={_short(value)}",
                shared=shared.get(seed),
            )
            for seed in self.seeds
            for each in self.tuned
            for value in each.values
        }

    @functools.cached_property
    def shared(self) -> dict[int, Run]:
        """By seed, the stages that come before any method's own; nothing where there are none."""
        found = {}
        for seed in self.seeds:
            folder = self.workdir / f"seed-{seed}" / _SHARED
            configs = [self._configs[each.method, each.values[0], seed] for each in self.tuned]
            sharing = [c for c in configs if Experiment(c, folder).common_stages]
            if sharing:
                config = sharing[0].copy_and_resolve_references()
                config.methods = tuple(c.methods[0] for c in sharing)
                own.declare(config)
                found[seed] = Run(config, folder, Experiment(config, folder).common_stages)
        return found

    def make(self, jobs: int) -> dict[tuple[str, float, int], Results | None]:
        """Makes all runs, those stages once a seed that no method's options change.

        Raises:
          StageError: if what all methods of a seed start from diverges.
        """
        waiting = {name for run in self.shared.values() for name in run.config.methods}
        first = {place: run for place, run in self.runs.items() if place[0] not in waiting}
        then = {place: run for place, run in self.runs.items() if place[0] in waiting}
        made = execute([*self.shared.values(), *first.values()], jobs)
        for run, results in zip(self.shared.values(), made, strict=False):
            if results is None:
                raise StageError(
                    f"{run.workdir}: plain training diverged, from which strengths are estimated: "
                    "lower config.optimizer.learning_rate"
                )
        made = [*made[len(self.shared) :], *execute(list(then.values()), jobs)]
        return dict(zip([*first, *then], made, strict=True))

    @functools.cached_property
    def _configs(self) -> dict[tuple[str, float, int], config_dict.ConfigDict]:
        found = {}
        for each in self.tuned:
            for value in each.values:
                config = self._config(each, value)
                for seed in self.seeds:
                    found[each.method, value, seed] = config.copy_and_resolve_references()
                    found[each.method, value, seed].seed = seed
        return found

    def _config(self, of: Candidates, value: float) -> config_dict.ConfigDict:
        config = self.config.copy_and_resolve_references()
        make_trial(config, of.method, self.fraction)
        try:
            config.update_from_flattened_dict({of.key: value})
        except TypeError as error:
            raise ConfigError(f"config.{of.key}={value!r} has the wrong type: {error}") from error
        validate(config)
        return config


def make_trial(config: config_dict.ConfigDict, method: str, fraction: float) -> None:
    """Makes a config train one method, and hold a part of the training set out, in place."""
    known = {path.removeprefix("method.") for path in SECTIONS if path.startswith("method.")}
    with config.method.unlocked():
        for name in {*config.method} - known - {own.method_name(method)}:
            del config.method[name]
    config.methods = (method,)
    own.declare(config)
    config.data.evaluate_on = "validation"
    config.data.validation_fraction = fraction


def _short(value: float) -> str:
    text = f"{value:g}"
    return text if float(text) == value else repr(value)
