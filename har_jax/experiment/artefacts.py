"""What the stages of an experiment leave in the workdir, and read from one another."""

import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from ml_collections import config_dict

from har_jax.config import own
from har_jax.data import DataError, TrainingData
from har_jax.estimation.out_of_sample import OutOfSample, from_probabilities
from har_jax.experiment import fingerprints
from har_jax.experiment.build import method_options
from har_jax.experiment.trainer import Trainer
from har_jax.experiment.workdir import StageError, StageFolder
from har_jax.methods import Method, Setting
from har_jax.options import make
from har_jax.strength import GroupStatistics
from har_jax.system import seeds
from har_jax.system.files import damaged, read_arrays, write_arrays
from har_jax.system.processes import is_first


class Artefacts:
    """The folders of one config in one workdir, and what is in them.

    Args:
      config: Validated by :func:`har_jax.config.validate`.
      workdir: In which they are.

    Attributes:
      config: As given.
      trainer: What trains and evaluates as the config says.
      methods: By the name of the folder, the name in the config.
      entries: By the name of the folder, the method.
      pretrain, estimate, report, predict: A folder each.
      train: By method, a folder each.
    """

    def __init__(self, config: config_dict.ConfigDict, workdir: pathlib.Path) -> None:
        self.config, self._workdir = config, workdir
        self.trainer = Trainer(config, workdir)
        self.methods = {own.method_name(value): value for value in config.methods}
        self.entries = {name: own.entry_of(value) for name, value in self.methods.items()}
        keys = {
            name: fingerprints.of_method(value, foreign=self.foreign)
            for name, value in self.methods.items()
        }
        every = ("methods", *itertools.chain(*keys.values()))
        self.pretrain = self._folder("pretrain", fingerprints.PRETRAIN)
        self.estimate = self._folder("estimate", fingerprints.of_estimate(foreign=self.foreign))
        self.train = {
            name: self._folder(f"train/{name}", keys[name], fingerprints.of_name(value))
            for name, value in self.methods.items()
        }
        self.report = self._folder("report", every)
        self.predict = self._folder("predict", (*every, *fingerprints.R, "predictions"))

    def _folder(
        self, name: str, keys: tuple[str, ...], more: Mapping[str, str] | None = None
    ) -> StageFolder:
        fingerprint = fingerprints.fingerprint(self.config, keys)
        return StageFolder(self._workdir / name, {**fingerprint, **(more or {})})

    @property
    def data(self) -> TrainingData:
        return self.trainer.data

    @property
    def estimates(self) -> bool:
        """Whether any method needs the statistics of groups."""
        return any(entry.estimates for entry in self.entries.values())

    @property
    def foreign(self) -> bool:
        """Whether another program has estimated the probabilities."""
        return self.config.estimate.probabilities is not None

    def out_of_sample(self) -> OutOfSample | None:
        """What is said of what was not seen; None where no method needs it."""
        if not self.estimates:
            return None
        if self.foreign:
            return self._foreign_out_of_sample
        return OutOfSample(**read_arrays(self.pretrain.path / "held_out.npz"))

    def check_foreign(self) -> None:
        """Raises :class:`DataError` if another program's files are not there, or do not fit."""
        for key in ("probabilities", "labels"):
            if not self._foreign_file(key).is_file():
                value = self.config.estimate[key]
                raise DataError(f"config.estimate.{key}={value!r} is no file")
        _ = self._foreign_out_of_sample

    @functools.cached_property
    def _foreign_out_of_sample(self) -> OutOfSample:
        files = self._foreign_file("probabilities"), self._foreign_file("labels")
        return from_probabilities(*files, self.data.train.labels, self.data.num_classes)

    def _foreign_file(self, key: str) -> pathlib.Path:
        return pathlib.Path(os.path.expanduser(self.config.estimate[key]))

    def statistics(self) -> GroupStatistics:
        """Of every group, as the estimate left them."""
        path = self.estimate.path / "statistics.npz"
        try:
            return GroupStatistics(**read_arrays(path))
        except TypeError as error:  # of a version that knew other columns
            raise damaged(path, error) from error

    def trained(self, name: str) -> tuple[Method, Any, np.ndarray]:
        """A method, its state after training, restored where that is done, and its strengths.

        The last are the factors of R of all training examples, 0 where nothing is regularized.
        """
        epochs, train, strength = self.config.train.epochs, self.data.train, self._strength(name)
        arrays: dict[str, Any] = {"inputs": train.inputs, "labels": train.labels}
        if strength is not None:
            arrays["strength"] = strength.astype(np.float32)
        method = self.trainer.make_method(self.methods[name], train.labels, epochs)
        state = self.trainer.fit(method, arrays, self.train[name].path, epochs, title=name)
        return method, state, np.zeros(len(train)) if strength is None else strength

    def _strength(self, name: str) -> np.ndarray | None:
        """The factor of R of every training example; None where nothing is regularized."""
        entry = self.entries[name]
        if entry.strength is None:
            return None
        setting = Setting(
            groups=self.data.train.group_ids(),
            statistics=self.statistics() if entry.estimates else None,
            seed=seeds.derive(self.config.seed, "strength"),
        )
        chosen = method_options(self.methods[name], self.config)
        try:
            strength = make(entry.strength, setting, chosen=chosen)
        except ValueError as error:
            raise StageError(f"{name}: {error}; config.estimate.smoothing can help") from error
        shape = (len(self.data.train),)
        fits = isinstance(strength, np.ndarray) and strength.shape == shape
        if not fits or not np.all(np.isfinite(strength) & (strength >= 0)):
            raise StageError(
                f"config.methods={self.methods[name]!r}: its strengths must be an array of shape "
                f"{shape} of finite numbers that are not negative"
            )
        return np.asarray(strength)

    def digest_for(self, folder: StageFolder) -> str:
        """A checksum of what a stage reads: not of probabilities, where it estimates nothing."""
        plain = (self.train[name] for name in self.train if not self.entries[name].estimates)
        if any(folder is other for other in (self.pretrain, *plain)):
            return hashlib.sha256(self.data.digest.encode()).hexdigest()
        return self.digest

    @functools.cached_property
    def digest(self) -> str:
        """A checksum of all that is read."""
        sha = hashlib.sha256(self.data.digest.encode())
        if self.estimates and self.foreign:
            for array in dataclasses.asdict(self._foreign_out_of_sample).values():
                sha.update(np.ascontiguousarray(array).data)
        return sha.hexdigest()


def write(path: pathlib.Path, **arrays: np.ndarray) -> None:
    """Writes arrays, in one process of several."""
    if is_first():
        write_arrays(path, **arrays)
