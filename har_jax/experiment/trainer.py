"""Training and evaluating as a config says: its data, its devices, its loop."""

import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from jax.sharding import Mesh
from ml_collections import config_dict

from har_jax.data import DataError, Examples, TrainingData, load
from har_jax.data.corrections import Corrections, read_corrections
from har_jax.data.label_files import IDS, LabelFile, read_label_file
from har_jax.data.relabelling import ids_of
from har_jax.data.summary import describe
from har_jax.experiment.build import (
    make_imbalance,
    make_method,
    make_noise,
    make_source,
    num_steps,
    what_it_reads,
)
from har_jax.experiment.workdir import StageError
from har_jax.methods import Method
from har_jax.system import interruption, seeds
from har_jax.system.files import write_array, write_text
from har_jax.system.processes import is_first
from har_jax.train.divergence import diverged
from har_jax.train.evaluate import Evaluation, Evaluator
from har_jax.train.feed import Beside
from har_jax.train.loop import fit
from har_jax.train.mesh import axis_of, choose_mesh


class Trainer:
    """What trains on the data of a config.

    Args:
      config: Validated.
      workdir: The folders of runs lie in it.
    """

    def __init__(self, config: config_dict.ConfigDict, workdir: pathlib.Path) -> None:
        self.config, self._workdir = config, workdir

    @functools.cached_property
    def mesh(self) -> Mesh:
        config = self.config
        try:
            return choose_mesh(config.devices, config.batch_size, config.microbatches)
        except ValueError as error:
            raise StageError(str(error)) from error

    @property
    def at_once(self) -> int:
        """The examples that training has in memory at once: so many do not need more for R."""
        return self.config.batch_size // self.config.microbatches

    @functools.cached_property
    def labels(self) -> LabelFile | None:
        """The file whose labels are trained on; None where they are the source's own.

        Raises:
          DataError: if it is not there, or is none.
        """
        given = self.config.data.labels
        return None if given is None else read_label_file(given)

    @functools.cached_property
    def corrections(self) -> Corrections | None:
        """The file of a person's corrections of labels; None where there is none.

        Raises:
          DataError: if it is not there, or is none.
        """
        given = self.config.data.relabel
        return None if given is None else read_corrections(given)

    @functools.cached_property
    def data(self) -> TrainingData:
        """Loaded when they are asked for, and told about.

        Raises:
          DataError: if they cannot be, or are not what the network takes.
        """
        config = self.config
        interruption.check()
        labels, corrections = self.labels, self.corrections
        data = load(
            make_source(config.data),
            make_noise(config.data.noise),
            make_imbalance(config.data.imbalance),
            config.seed,
            train_size=config.data.train_size,
            meta_size=config.data.meta_size,
            validation_fraction=config.data.validation_fraction,
            keep_groups_whole=bool(config.data.keep_groups_whole),
            on_leak=config.data.on_leak,
            reads=what_it_reads(config.model),
            labels=labels,
            corrections=corrections,
        )
        interruption.check()
        _check_channels(config, data)
        for line in describe(data):
            print(f"data: {line}")
        return data

    def describe_data(self, folder: pathlib.Path) -> None:
        """Leaves in a folder what goes with a network: the labels it learned from, and the words.

        ``labels.npy`` ``[n]``, of the whole training set, in its order; ``classes.txt``, a name on
        each line, by id; ``vocabulary.txt``, of texts, a word on each line, by id; ``ids.txt``,
        where training examples have ids, one on each line, in the order of the labels.
        """
        if not is_first():
            return
        write_text(folder / "classes.txt", "".join(f"{name}\n" for name in self.data.class_names))
        write_array(folder / "labels.npy", self.data.train.labels)
        ids = ids_of(self.data.train)
        if ids is not None and all(len(id.splitlines()) == 1 for id in ids):
            write_text(folder / IDS, "".join(f"{id}\n" for id in ids))
        if self.data.vocabulary is not None:
            self.data.vocabulary.save(folder / "vocabulary.txt")

    def make_method(
        self,
        name: str,
        labels: np.ndarray,
        epochs: float,
        *,
        schedule_epochs: float | None = None,
        reweighting: bool = True,
        known: Mapping[str, Any] | None = None,
    ) -> Method:
        return make_method(
            name,
            self.config,
            labels,
            self.data.num_classes,
            vocabulary_size=self.data.vocabulary_size,
            epochs=epochs,
            schedule_epochs=schedule_epochs,
            axis=axis_of(self.mesh),
            reweighting=reweighting,
            known=known,
        )

    def fit(
        self,
        method: Method,
        arrays: dict[str, Any],
        folder: pathlib.Path,
        epochs: float,
        *,
        title: str,
        beside: Mapping[str, Beside] | None = None,
    ) -> Any:
        # All methods share one seed: they begin alike and see the same batches. What some start
        # from is what plain training comes to.
        config, stage = self.config, folder.relative_to(self._workdir).parts[0]
        return fit(
            method,
            arrays,
            folder,
            steps=num_steps(epochs, len(arrays["labels"]), config.batch_size),
            batch_size=config.batch_size,
            seed=seeds.derive(config.seed, "train" if stage == "start" else stage),
            log_every=config.log_every,
            checkpoint_every=config.checkpoint_every,
            title=title,
            beside=beside,
            mesh=self.mesh,
            on_nonfinite=config.on_nonfinite,
        )

    def evaluate(
        self,
        name: str,
        method: Method,
        state: Any,
        *parts: Examples,
        probabilities: bool = False,
    ) -> list[Evaluation]:
        """Evaluates a trained method, which the last update may have made diverge."""
        size = min(2 * self.at_once, 512)
        evaluate = Evaluator(method.predict, size, self.mesh, probabilities=probabilities)
        results = [evaluate(state.variables, part) for part in parts]
        if not all(np.all(np.isfinite(result.loss[result.prediction >= 0])) for result in results):
            raise diverged(f"{name}: losses are not finite after the last step")
        return results


def _check_channels(config: config_dict.ConfigDict, data: TrainingData) -> None:
    channels = data.train.inputs.shape[-1]
    for key in ("mean", "std"):
        numbers = config.data[key]
        if numbers is not None and len(numbers) != channels:
            raise DataError(
                f"config.data.{key}={numbers} has {len(numbers)} numbers, and images of "
                f"{config.data.source} have {channels} channels"
            )
