"""What the stages of an experiment leave in the workdir, and read from one another."""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from ml_collections import config_dict

from har_jax.config import own
from har_jax.config.consistency import NO_META
from har_jax.config.defaults import flatten
from har_jax.data import DataError, ReversedBatches, TrainingData
from har_jax.estimation.cross_validation import Selection
from har_jax.estimation.estimate import Estimated
from har_jax.estimation.noise_rate import leaves_nothing, noise_rate
from har_jax.estimation.out_of_sample import OutOfSample, from_probabilities
from har_jax.experiment import fingerprints
from har_jax.experiment.per_example import labels_by, strength_by
from har_jax.experiment.selection import candidates_beside, known_by, read_selection
from har_jax.experiment.trainer import Trainer
from har_jax.experiment.workdir import StageError, StageFolder
from har_jax.methods import Method, Setting
from har_jax.strength import GroupStatistics
from har_jax.system import seeds
from har_jax.system.files import damaged, read_array, read_arrays, write_arrays, write_json
from har_jax.system.processes import is_first
from har_jax.train.feed import Beside


class Trained(NamedTuple):
    """A method after training.

    Attributes:
      method: The method.
      state: Its state.
      strength: ``[n]``, the factor of R of every training example, 0 where nothing is regularized.
      labels: ``[n]``, what it was trained with, -1 of examples that it left out.
      noise_rate: What was estimated for it; None where nothing was.
      selection: The examples that it was trained on; None of a method that takes all.
      meta: How many examples it saw that are known to be labelled rightly.
    """

    method: Method
    state: Any
    strength: np.ndarray
    labels: np.ndarray
    noise_rate: float | None
    selection: Selection | None
    meta: int


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
      pretrain, estimate, start, report, predict: A folder each.
      select: By method, a folder each, of those that are trained on selected examples.
      train: By method, a folder each.
    """

    def __init__(self, config: config_dict.ConfigDict, workdir: pathlib.Path) -> None:
        self.config, self._workdir = config, workdir
        self.trainer = Trainer(config, workdir)
        self.methods = {own.method_name(value): value for value in config.methods}
        self.entries = {name: own.entry_of(value) for name, value in self.methods.items()}
        keys = {name: fingerprints.of_method(value, config) for name, value in self.methods.items()}
        every = ("methods", *itertools.chain(*keys.values()))
        self.pretrain = self._folder("pretrain", fingerprints.PRETRAIN)
        self.start = self._folder("start", fingerprints.START)
        self.estimate = self._folder("estimate", fingerprints.of_estimate(foreign=self.foreign))
        self.select = {
            name: self._folder(f"select/{name}", fingerprints.of_selection(value))
            for name, value in self.methods.items()
            if self.entries[name].selects is not None
        }
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
        files = {"labels": self.trainer.labels, "relabel": self.trainer.corrections}
        for key, file in files.items():
            if file is not None:  # wherever it lies, by what it holds
                fingerprint[f"data.{key} (SHA-256)"] = file.digest
        return StageFolder(self._workdir / name, {**fingerprint, **(more or {})})

    @property
    def data(self) -> TrainingData:
        return self.trainer.data

    @property
    def estimates(self) -> bool:
        """Whether any method needs what is estimated out of sample."""
        return any(map(self.estimates_for, self.methods))

    def estimates_for(self, name: str) -> bool:
        """Whether a method does, by the name of its folder."""
        return own.estimates(self.methods[name], flatten(self.config))

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

    def estimated(self) -> Estimated:
        """What the estimate found."""
        path = self.estimate.path
        try:
            told = json.loads((path / "neighbourhoods.json").read_text())
            return Estimated(
                GroupStatistics(**read_arrays(path / "statistics.npz")),
                names=tuple(told["names"]),
                temperatures=told["temperatures"],
                **read_arrays(path / "examples.npz"),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:  # of a version of other columns
            raise damaged(path, error) from error

    def probabilities(self) -> np.ndarray:
        """``[n, K]``, of all training examples, out of sample."""
        if self.foreign:
            return read_array(self._foreign_file("probabilities"))
        return read_array(self.pretrain.path / "probabilities.npy")

    def started(self) -> tuple[Method, Any]:
        """A plain method and its state after training, from which others start."""
        labels, epochs = self.data.train.labels, self.config.train.epochs
        method = self.trainer.make_method("erm", labels, epochs, reweighting=False)
        arrays = {"inputs": self.data.train.inputs, "labels": labels}
        return method, self.trainer.fit(method, arrays, self.start.path, epochs, title="start")

    def trained(self, name: str) -> Trained:
        """A method after training, restored where that is done."""
        config, entry = self.config, self.entries[name]
        setting = Setting(
            labels=_read_only(self.data.train.labels),
            groups=_read_only(self.data.train.group_ids()),
            **self._known_of_examples(name),
            probabilities=None if entry.labels is None else self.probabilities(),
            seed=seeds.derive(config.seed, "strength"),
        )
        value = self.methods[name]
        labels = labels_by(value, config, setting, self.data.class_names)
        selection = read_selection(self.select[name].path) if name in self.select else None
        taken = labels >= 0
        if selection is not None:
            labels = np.where(selection.removed, -1, labels)
            taken &= selection.round >= 0
        kept = np.flatnonzero(taken)
        train = self.data.train if len(kept) == len(labels) else self.data.train.take(kept)
        arrays: dict[str, Any] = {"inputs": train.inputs, "labels": labels[kept]}
        strength = strength_by(value, config, setting)
        if strength is not None:
            arrays["strength"] = strength[kept].astype(np.float32)
        known: dict[str, Any] = {}
        beside = self._beside(name, selection, arrays)
        if selection is not None:
            known |= known_by(self.trainer, value, selection, beside)
        if own.wants_noise_rate(value, flatten(config)):
            known["noise_rate"] = self._noise_rate(name)
        if entry.starts and not self.train[name].has_checkpoint():
            self.start.need_checkpoint(f"from which {name} starts")
            known["start"] = self.started()[1].variables
        epochs, path = config.train.epochs, self.train[name].path
        method = self.trainer.make_method(value, labels[kept], epochs, known=known)
        state = self.trainer.fit(method, arrays, path, epochs, title=name, beside=beside)
        strength = np.zeros(len(labels)) if strength is None else strength
        meta = len(beside["meta"].data["labels"]) if "meta" in beside else 0
        return Trained(method, state, strength, labels, known.get("noise_rate"), selection, meta)

    def _known_of_examples(self, name: str) -> dict[str, np.ndarray]:
        """I, q and tau of every training example, for a method that needs them."""
        if not self.estimates_for(name):
            return {}
        found = self.estimated()
        return {key: _read_only(getattr(found, key)) for key in ("noise", "frequency", "tau")}

    def need_meta(self) -> None:
        """Raises :class:`DataError` if a method learns from clean labels, and there are none."""
        for name, value in self.methods.items():
            if own.sees_meta(value, flatten(self.config)) and self.data.meta is None:
                raise DataError(f"{name} {NO_META}")

    def _beside(
        self, name: str, selection: Selection | None, arrays: Mapping[str, Any]
    ) -> dict[str, Beside]:
        """What each of a method's batches has beside it, which are of these arrays."""
        found = {} if selection is None else candidates_beside(self.trainer, selection)
        if own.sees_meta(self.methods[name], flatten(self.config)):
            meta = self.data.meta
            assert meta is not None  # looked at before any stage
            clean = {"inputs": meta.inputs, "labels": meta.labels}
            found["meta"] = Beside(clean, self.config.batch_size)
        if self.entries[name].sees_reversed:
            found["reversed"] = Beside(arrays, self.config.batch_size, ReversedBatches)
        return found

    def _noise_rate(self, name: str) -> float:
        """The share of wrong labels, as a method needs it that was given none."""
        said = self.out_of_sample()
        assert said is not None
        rate = noise_rate(said, self.data.train.labels)
        if leaves_nothing(rate, self.config.batch_size):
            raise StageError(
                f"{name}: the noise rate is estimated as {100 * rate:.0f}%, which leaves no "
                "example of a batch: see what is said of the pre-trained model, or set "
                f"config.method.{name}.noise_rate"
            )
        return rate

    def digest_for(self, folder: StageFolder) -> str:
        """A checksum of what a stage reads: not of probabilities, where it estimates nothing."""
        plain = (self.train[name] for name in self.train if not self.estimates_for(name))
        without = (self.pretrain, self.start, *self.select.values(), *plain)
        if any(folder is other for other in without):
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


def _read_only(array: np.ndarray) -> np.ndarray:
    """A copy for functions that may be a person's own."""
    copy = array.copy()
    copy.setflags(write=False)
    return copy


def save(folder: pathlib.Path, estimated: Estimated) -> None:
    """Writes what :meth:`Artefacts.estimated` reads."""
    of_examples = ("shown", "group", "noise", "frequency", "tau")
    write(folder / "examples.npz", **{name: getattr(estimated, name) for name in of_examples})
    write(folder / "statistics.npz", **dataclasses.asdict(estimated.statistics))
    if is_first():
        told = {"names": estimated.names, "temperatures": dict(estimated.temperatures)}
        write_json(folder / "neighbourhoods.json", told)


def write(path: pathlib.Path, **arrays: np.ndarray) -> None:
    """Writes arrays, in one process of several."""
    if is_first():
        write_arrays(path, **arrays)
