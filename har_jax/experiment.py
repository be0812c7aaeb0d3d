"""Algorithm 1 of Cao et al. 2021 in stages: pretrain, estimate, train, report.

Each stage reads what earlier ones left in the workdir and leaves its own artefacts there:

* ``pretrain/`` trains plainly on a part of the training set, and predicts the rest; or so for each
  of several folds;
* ``estimate/`` turns these predictions into :math:`\\tau` of every class;
* ``train/METHOD/`` trains each method on the full set, and evaluates it;
* ``report/`` compares them;
* ``predict/``, only where it is asked for, has what each trained network says of every example.

The first two are left out where no method needs them.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ml_collections import config_dict

from har_jax.build import make_describe
from har_jax.config import flatten
from har_jax.data import DataError, TrainingData
from har_jax.data.splits import FEWER_THAN_FOLDS, IN_ONE_PART
from har_jax.methods import Method
from har_jax.out_of_sample import (
    OutOfSample,
    by_fold,
    estimate,
    from_probabilities,
    warn_of_confusion,
)
from har_jax.pretraining import folders_of, held_out_parts, pretrain, warn_of_torn_groups
from har_jax.registry import METHODS, Setting
from har_jax.report.page import write_page
from har_jax.report.results import Inputs, notes, summarize
from har_jax.report.selection import as_csv
from har_jax.report.table import format_table
from har_jax.strength import GroupStatistics
from har_jax.system import interruption, seeds
from har_jax.system.files import damaged, read_arrays, write_arrays, write_json, write_text
from har_jax.system.lock import locked, refuse_moved
from har_jax.system.processes import agree, is_first, wait_for_all
from har_jax.train.evaluate import ByExample
from har_jax.train.mesh import open_devices
from har_jax.train.metrics import read_metrics
from har_jax.train.predictions import to_table, write_table
from har_jax.trainer import Trainer
from har_jax.workdir import StageError, StageFolder, refuse_differences

_COMMON_KEYS = ("seed", "data", "model", "batch_size", "microbatches", "optimizer")
_PRETRAIN_KEYS = (*_COMMON_KEYS, "pretrain")
_ESTIMATE_KEYS = (*_PRETRAIN_KEYS, "estimate")
_FOREIGN_KEYS = ("seed", "data", "estimate")  # where no model is pre-trained
_R_KEYS = ("regularizer.layers", "regularizer.reduction")
_TRAIN_KEYS = (*_COMMON_KEYS, "train", "reweighting")
# Where things are does not change what they are, nor does how many processes read them, nor what
# to do with files that cannot be read, where none ended the run.
_PLACES = (
    "data.data_dir",
    "data.root",
    "data.table",
    "data.workers",
    "data.on_unreadable",
    "estimate.probabilities",
    "estimate.labels",
)


@dataclasses.dataclass(frozen=True)
class _Stage:
    """A folder of the workdir, what fills it, and the folders that this needs."""

    stage: str
    folder: StageFolder
    run: Callable[[], None]
    needs: Sequence[StageFolder] = ()


class Experiment:
    """The stages of one config in one workdir.

    Args:
      config: Validated by :func:`har_jax.config.validate`.
      workdir: Made where it does not exist.
    """

    def __init__(self, config: config_dict.ConfigDict, workdir: pathlib.Path) -> None:
        self._config = config
        self._workdir = workdir
        self._trainer = Trainer(config, workdir)
        self._estimate_keys = _FOREIGN_KEYS if self._foreign else _ESTIMATE_KEYS
        self._pretrain = self._folder("pretrain", _PRETRAIN_KEYS)
        self._estimate = self._folder("estimate", self._estimate_keys)
        keys = {name: self._train_keys(name) for name in config.methods}
        self._train = {name: self._folder(f"train/{name}", keys[name]) for name in keys}
        every = ("methods", *itertools.chain(*keys.values()))
        self._report = self._folder("report", every)
        self._predict = self._folder("predict", (*every, *_R_KEYS, "predictions"))
        self._estimates = any(METHODS[name].estimates for name in config.methods)

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
        asked = lambda entry: entry.stage != "predict" if stage is None else entry.stage == stage
        entries = [entry for entry in self._stages() if asked(entry)]
        if not entries and stage == "pretrain" and self._estimates:
            raise StageError(
                "--stage=pretrain is not needed: config.estimate.probabilities takes its place"
            )
        if not entries:
            raise StageError(
                f"--stage={stage} is not needed by any of config.methods={self._config.methods}"
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
                    _ = self._trainer.mesh
                    self._check_data(entries)  # what is wrong with it is told before stages begin
                except (StageError, DataError, OSError) as error:
                    trouble = error
                whole = [stage, flatten(self._config), str(self._workdir.absolute())]
                digest = "" if trouble else self._digest
                agree(trouble, json.dumps([*whole, digest]))
            for entry in entries:
                interruption.check()
                self._run_entry(entry)
                wait_for_all("end of stage")

    @property
    def _data(self) -> TrainingData:
        return self._trainer.data

    def _check_data(self, entries: Sequence[_Stage]) -> None:
        if self._estimates and self._foreign:
            for key in ("probabilities", "labels"):
                if not self._foreign_file(key).is_file():
                    value = self._config.estimate[key]
                    raise DataError(f"config.estimate.{key}={value!r} is no file")
            _ = self._foreign_out_of_sample
        parts: Sequence[np.ndarray] = ()
        if self._estimates and not self._foreign:
            train = self._data.train  # loaded out here, where its own warnings are heard
            with warnings.catch_warnings():
                # Told by who trains the models.
                warnings.filterwarnings("ignore", FEWER_THAN_FOLDS)
                warnings.filterwarnings("ignore", IN_ONE_PART)
                parts = held_out_parts(self._config, train)
        if self._config.data.keep_groups_whole is None:
            warn_of_torn_groups(self._data, parts)
        for folder in dict.fromkeys(f for entry in entries for f in (*entry.needs, entry.folder)):
            folder.refuse_other_data(self._digest_for(folder))

    def _run_entry(self, entry: _Stage) -> None:
        if entry.folder.is_complete():
            print(f"{entry.folder.path}: complete, skipped")
            if entry.stage == "report":
                print(f"report: {entry.folder.path / 'index.html'}")
            return
        wait_for_all("beginning of stage")  # before it is written, all have seen what is there
        if is_first():
            entry.folder.begin(self._digest_for(entry.folder))
        entry.run()
        if is_first():
            refuse_moved(self._workdir)
            entry.folder.finish(self._digest_for(entry.folder))

    def _stages(self) -> list[_Stage]:
        stages = []
        if self._estimates:
            needs = () if self._foreign else (self._pretrain,)
            if not self._foreign:
                run = functools.partial(pretrain, self._trainer, self._pretrain.path)
                stages.append(_Stage("pretrain", self._pretrain, run))
            stages.append(_Stage("estimate", self._estimate, self._run_estimate, needs))
        for name, folder in self._train.items():
            run = functools.partial(self._run_train, name)
            needs = (self._estimate,) if METHODS[name].estimates else ()
            stages.append(_Stage("train", folder, run, needs))
        everything = [entry.folder for entry in stages]
        return [
            *stages,
            _Stage("report", self._report, self._run_report, everything),
            _Stage("predict", self._predict, self._run_predict, everything),
        ]

    def _train_keys(self, name: str) -> tuple[str, ...]:
        entry = METHODS[name]
        return (*_TRAIN_KEYS, *entry.reads, *(self._estimate_keys if entry.estimates else ()))

    def _folder(self, name: str, keys: tuple[str, ...]) -> StageFolder:
        fingerprint = {
            key: value
            for key, value in flatten(self._config).items()
            if any(key == prefix or key.startswith(f"{prefix}.") for prefix in keys)
            and key not in _PLACES
        }
        return StageFolder(self._workdir / name, fingerprint)

    def _run_estimate(self) -> None:
        train, said = self._data.train, self._out_of_sample()
        assert said is not None  # this stage is of methods that need it
        warn_of_confusion(said, train.labels, self._data.class_names, foreign=self._foreign)
        names, smoothing = self._data.group_names, self._config.estimate.smoothing
        estimates = estimate(said, train.labels, train.group_ids(), names, smoothing)
        self._write(self._estimate.path / "statistics.npz", **dataclasses.asdict(estimates.pooled))
        self._write(self._estimate.path / "folds.npz", **by_fold(estimates))

    def _run_train(self, name: str) -> None:
        data, folder = self._data, self._train[name].path
        method, state, strength = self._trained(name)
        train, test, *others = self._trainer.evaluate(
            name, method, state, data.train, data.test, *data.others.values()
        )
        results = {"test": test, **dict(zip(data.others, others, strict=True))}
        self._trainer.describe_data(folder)
        self._write(
            folder / "evaluation.npz",
            strength=strength,
            train_loss=train.loss,
            train_prediction=train.prediction,
            test_loss=test.loss,
            test_prediction=test.prediction,
            **{f"{name}_top5": result.top5 for name, result in results.items()},
            **{f"{name}_prediction": results[name].prediction for name in data.others},
        )

    def _trained(self, name: str) -> tuple[Method, Any, np.ndarray]:
        """A method, its state after training, restored where that is done, and its strengths.

        The last are the factors of R of all training examples, 0 where nothing is regularized.
        """
        config, train, strength = self._config, self._data.train, self._strength(name)
        arrays: dict[str, Any] = {"inputs": train.inputs, "labels": train.labels}
        if strength is not None:
            arrays["strength"] = strength.astype(np.float32)
        method = self._trainer.make_method(name, train.labels, config.train.epochs)
        folder = self._train[name].path
        state = self._trainer.fit(method, arrays, folder, config.train.epochs, title=name)
        return method, state, np.zeros(len(train)) if strength is None else strength

    def _run_predict(self) -> None:
        config, data = self._config, self._data
        said = self._out_of_sample()
        describe = make_describe(config, data.num_classes, data.vocabulary_size)
        describe_all = ByExample(describe, min(self._trainer.at_once, 256), self._trainer.mesh)
        for name, folder in self._train.items():
            if not any(folder.path.glob("checkpoints/*")):
                raise StageError(
                    f"{folder.path}/checkpoints is gone, from which --stage=predict restores a "
                    f"network: delete {folder.path} to train it anew"
                )
            _, state, strength = self._trained(name)
            tables = [
                to_table(
                    split,
                    examples,
                    describe_all(state.variables, examples),
                    factor,
                    data.class_names,
                    data.group_names,
                    seen_before,
                )
                for split, examples, factor, seen_before in (
                    ("train", data.train, strength, said),
                    ("test", data.test, None, None),
                )
            ]
            interruption.check()
            path = self._predict.path / f"{name}.{config.predictions}"
            if is_first():
                write_table(path, tables, config.predictions)
            print(f"predictions: {path}")

    def _run_report(self) -> None:
        if not is_first():
            return
        folders = {name: folder.path for name, folder in self._train.items()}
        statistics = folds = None
        if self._estimates:
            if not self._foreign:
                named = {path.name: path for path in folders_of(self._config, self._pretrain.path)}
                folders = {**named, **folders}
            statistics = self._statistics()
            folds = read_arrays(self._estimate.path / "folds.npz")
        inputs = Inputs(
            config={**flatten(self._config), "devices": self._trainer.mesh.size},
            data=self._data,
            held_out=self._out_of_sample(),
            statistics=statistics,
            folds=folds,
            evaluations={
                name: read_arrays(folder.path / "evaluation.npz")
                for name, folder in self._train.items()
            },
            metrics={name: read_metrics(path / "metrics.jsonl") for name, path in folders.items()},
        )
        interruption.check()
        results = summarize(inputs)
        interruption.check()
        write_json(self._report.path / "results.json", results)
        write_text(self._report.path / "groups.csv", as_csv(results))
        write_page(self._report.path / "index.html", inputs, results)
        interruption.check()
        print(format_table(results))
        for line in notes(results):
            print(line)
        print(f"report: {self._report.path / 'index.html'}")

    def _write(self, path: pathlib.Path, **arrays: np.ndarray) -> None:
        if is_first():
            write_arrays(path, **arrays)

    def _strength(self, name: str) -> np.ndarray | None:
        """The factor of R of every training example; None where nothing is regularized."""
        entry = METHODS[name]
        if entry.strength is None:
            return None
        setting = Setting(
            regularizer=self._config.regularizer,
            groups=self._data.train.group_ids(),
            statistics=self._statistics() if entry.estimates else None,
            seed=seeds.derive(self._config.seed, "strength"),
        )
        try:
            return entry.strength(setting)
        except ValueError as error:
            raise StageError(f"{name}: {error}; config.estimate.smoothing can help") from error

    def _out_of_sample(self) -> OutOfSample | None:
        """What is said of what was not seen; None where no method needs it."""
        if not self._estimates:
            return None
        if self._foreign:
            return self._foreign_out_of_sample
        return OutOfSample(**read_arrays(self._pretrain.path / "held_out.npz"))

    @property
    def _foreign(self) -> bool:
        """Whether another program has estimated the probabilities."""
        return self._config.estimate.probabilities is not None

    @functools.cached_property
    def _foreign_out_of_sample(self) -> OutOfSample:
        files = self._foreign_file("probabilities"), self._foreign_file("labels")
        return from_probabilities(*files, self._data.train.labels, self._data.num_classes)

    def _foreign_file(self, key: str) -> pathlib.Path:
        return pathlib.Path(os.path.expanduser(self._config.estimate[key]))

    def _digest_for(self, folder: StageFolder) -> str:
        """A checksum of what a stage reads: not of probabilities, where it estimates nothing."""
        plain = (self._train[name] for name in self._train if not METHODS[name].estimates)
        if any(folder is other for other in (self._pretrain, *plain)):
            return hashlib.sha256(self._data.digest.encode()).hexdigest()
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        """A checksum of all that is read."""
        sha = hashlib.sha256(self._data.digest.encode())
        if self._estimates and self._foreign:
            for array in dataclasses.asdict(self._foreign_out_of_sample).values():
                sha.update(np.ascontiguousarray(array).data)
        return sha.hexdigest()

    def _statistics(self) -> GroupStatistics:
        path = self._estimate.path / "statistics.npz"
        try:
            return GroupStatistics(**read_arrays(path))
        except TypeError as error:  # of a version that knew other columns
            raise damaged(path, error) from error
