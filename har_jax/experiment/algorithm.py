"""Algorithm 1 of Cao et al. 2021 in stages: pretrain, estimate, start, select, train,
report.

Each stage reads what earlier ones left in the workdir and leaves its own artefacts there:

* ``pretrain/`` trains plainly on a part of the training set, and predicts the rest; or so for each
  of several folds;
* ``estimate/`` turns these predictions into :math:`\\tau` of every class;
* ``start/`` trains plainly on the full set, for methods that start from such a network;
* ``select/METHOD/`` selects the examples that a method is trained on, if it does not take all;
* ``train/METHOD/`` trains each method on the full set, and evaluates it;
* ``report/`` compares them;
* ``predict/``, only where it is asked for, has what each trained network says of every example.

The first four are left out where no method needs them.
"""

import contextlib
import dataclasses
import functools
import json
import pathlib
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from ml_collections import config_dict

from har_jax.config import ConfigError, flatten
from har_jax.data import DataError
from har_jax.data.splits import FEWER_THAN_FOLDS, IN_ONE_PART
from har_jax.estimation.held_out import warn_of_torn_groups
from har_jax.experiment import stages
from har_jax.experiment.artefacts import Artefacts
from har_jax.experiment.contract import check_own
from har_jax.experiment.pretraining import held_out_of, pretrain
from har_jax.experiment.workdir import StageError, StageFolder, refuse_differences
from har_jax.system import interruption
from har_jax.system.lock import locked, refuse_moved
from har_jax.system.processes import agree, is_first, wait_for_all
from har_jax.train.mesh import open_devices


@dataclasses.dataclass(frozen=True)
class _Stage:
    """A folder of the workdir, what fills it, the folders that this needs, and whose it is."""

    stage: str
    folder: StageFolder
    run: Callable[[], None]
    needs: Sequence[StageFolder] = ()
    method: str | None = None


class Experiment:
    """The stages of one config in one workdir.

    Args:
      config: Validated by :func:`har_jax.config.validate`.
      workdir: Made where it does not exist.
    """

    def __init__(self, config: config_dict.ConfigDict, workdir: pathlib.Path) -> None:
        self._workdir = workdir
        self._artefacts = Artefacts(config, workdir)

    def run(self, stage: str | None = None) -> None:
        """Runs one stage, or all but ``predict``.

        A stage that is complete is skipped; one that was cut goes on from its last checkpoint.

        Raises:
          StageError: if a folder was made from another config or from other data, or an earlier
            stage is missing.
          LockError: if another process is at work in the workdir, or it cannot be written to.
          DeviceError: if JAX cannot open the devices that it was told to take.
          Interrupted: if a signal came, at points from which the same call goes on.
        """
        a = self._artefacts
        asked = lambda entry: entry.stage != "predict" if stage is None else entry.stage == stage
        entries = [entry for entry in self._stages() if asked(entry)]
        if not entries and stage == "pretrain" and a.estimates:
            raise StageError(
                "--stage=pretrain is not needed: config.estimate.probabilities takes its place"
            )
        if not entries:
            raise StageError(
                f"--stage={stage} is not needed by any of config.methods={a.config.methods}"
            )
        refuse_differences([f for entry in entries for f in (*entry.needs, entry.folder)])
        open_devices()
        made = {entry.folder for entry in entries}
        for needed in (need for entry in entries for need in entry.needs):
            if needed not in made and not needed.is_complete():
                raise StageError(
                    f"--stage={stage} needs {needed.path}, which is not complete: run --stage="
                    f"{needed.path.relative_to(self._workdir).parts[0]} first, or leave --stage out"
                )
        with contextlib.ExitStack() as stack:
            if not all(entry.folder.is_complete() for entry in entries):
                trouble = None
                try:
                    if is_first():
                        stack.enter_context(locked(self._workdir))
                    _ = a.trainer.mesh
                    self._check_data(entries)  # what is wrong with it is told before stages begin
                except (StageError, ConfigError, DataError, OSError) as error:
                    trouble = error
                whole = [stage, flatten(a.config), str(self._workdir.absolute())]
                digest = "" if trouble else a.digest
                agree(trouble, json.dumps([*whole, digest]))
            for entry in entries:
                interruption.check()
                self._run_entry(entry)
                wait_for_all("end of stage")

    @property
    def common_stages(self) -> tuple[str, ...]:
        """Those that come before any method's own, and depend on no method's options."""
        common = ("pretrain", "estimate", "start")
        return tuple(entry.stage for entry in self._stages() if entry.stage in common)

    def refuse_other_config(self) -> None:
        """Raises :class:`WorkdirError` if what the workdir holds was made from another config."""
        refuse_differences([entry.folder for entry in self._stages() if entry.stage != "predict"])

    def _check_data(self, entries: Sequence[_Stage]) -> None:
        a = self._artefacts
        if a.estimates and a.foreign:
            a.check_foreign()
        a.need_meta()
        parts: Sequence[np.ndarray] = ()
        if a.estimates and not a.foreign:
            train = a.data.train  # loaded out here, where its own warnings are heard
            with warnings.catch_warnings():
                # Told by who trains the models.
                warnings.filterwarnings("ignore", FEWER_THAN_FOLDS)
                warnings.filterwarnings("ignore", IN_ONE_PART)
                parts = held_out_of(a.config, train)
        check_own(a.config, a.data)
        if a.config.data.keep_groups_whole is None:
            warn_of_torn_groups(a.data, parts)
        for folder in dict.fromkeys(f for entry in entries for f in (*entry.needs, entry.folder)):
            folder.refuse_other_data(a.digest_for(folder))

    def _run_entry(self, entry: _Stage) -> None:
        if entry.folder.is_complete():
            print(f"{entry.folder.path}: complete, skipped")
            if entry.stage == "report":
                print(f"report: {entry.folder.path / 'index.html'}")
            return
        wait_for_all("beginning of stage")  # before it is written, all have seen what is there
        if is_first():
            entry.folder.begin(self._artefacts.digest_for(entry.folder))
        try:
            entry.run()
        except StageError as error:
            error.method = entry.method
            raise
        if is_first():
            refuse_moved(self._workdir)
            entry.folder.finish(self._artefacts.digest_for(entry.folder))

    def _stages(self) -> list[_Stage]:
        a, found = self._artefacts, []
        if a.estimates:
            needs = () if a.foreign else (a.pretrain,)
            if not a.foreign:
                run = functools.partial(pretrain, a.trainer, a.pretrain.path)
                found.append(_Stage("pretrain", a.pretrain, run))
            run = functools.partial(stages.run_estimate, a)
            found.append(_Stage("estimate", a.estimate, run, needs))
        if any(entry.starts for entry in a.entries.values()):
            found.append(_Stage("start", a.start, functools.partial(stages.run_start, a)))
        for name, folder in a.select.items():
            run = functools.partial(stages.run_select, a, name)
            found.append(_Stage("select", folder, run, method=name))
        for name, folder in a.train.items():
            run = functools.partial(stages.run_train, a, name)
            estimate = (a.estimate,) if a.estimates_for(name) else ()
            start = (a.start,) if a.entries[name].starts else ()
            selection = (a.select[name],) if name in a.select else ()
            needs = (*estimate, *start, *selection)
            found.append(_Stage("train", folder, run, needs, method=name))
        everything = [entry.folder for entry in found]
        return [
            *found,
            _Stage("report", a.report, functools.partial(stages.run_report, a), everything),
            _Stage("predict", a.predict, functools.partial(stages.run_predict, a), everything),
        ]
