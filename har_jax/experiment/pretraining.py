"""The models that estimate the noise, each on a part of the training set."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from ml_collections import config_dict

from har_jax.data import Examples
from har_jax.data.apart import Parts
from har_jax.estimation.held_out import held_out_parts
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.experiment.trainer import Trainer
from har_jax.methods import Method
from har_jax.system import seeds
from har_jax.system.files import write_array, write_arrays
from har_jax.system.processes import is_first
from har_jax.train.evaluate import Evaluation


def held_out_of(config: config_dict.ConfigDict, train: Examples) -> list[np.ndarray]:
    """The examples that each model does not see, as a config says.

    Raises:
      DataError: if there are too few, or too few groups where those are kept whole.
    """
    return held_out_parts(
        train,
        Parts(bool(config.data.keep_groups_whole)),
        seeds.derive(config.seed, "pretrain split"),
        fraction=config.pretrain.fraction,
        folds=config.pretrain.folds,
    )


def folders_of(config: config_dict.ConfigDict, path: pathlib.Path) -> list[pathlib.Path]:
    """The folder of each model, within that of all."""
    folds = config.pretrain.folds
    return [path] if folds is None else [path / f"fold-{fold}" for fold in range(folds)]


def pretrain(trainer: Trainer, path: pathlib.Path) -> None:
    """Trains each model plainly, and lets it predict what it did not see.

    Leaves ``held_out.npz``, the arrays of :class:`har_jax.estimation.out_of_sample.OutOfSample`,
    and, where there are folds, ``probabilities.npy``: ``[n, K]``, of all examples in their order.
    """
    config, train = trainer.config, trainer.data.train
    epochs = config.pretrain.epochs
    folded = config.pretrain.folds is not None
    parts = held_out_of(config, train)
    results = []
    for held_out, folder in zip(parts, folders_of(config, path), strict=True):
        title = f"pretrain {folder.name}" if folded else "pretrain"
        fitted = train.take(np.setdiff1d(np.arange(len(train)), held_out))
        unseen = train.take(held_out)
        results.append(
            predict_unseen(trainer, fitted, unseen, folder, epochs, title, probabilities=folded)
        )
    said = joined(parts, range(len(parts)), results)
    trainer.describe_data(path)
    if not is_first():
        return
    if folded:
        probabilities = np.concatenate([result.probabilities for result in results])
        write_array(path / "probabilities.npy", probabilities[np.argsort(said.index)])
    write_arrays(path / "held_out.npz", **dataclasses.asdict(said))


def predict_unseen(
    trainer: Trainer,
    fitted: Examples,
    unseen: Examples,
    folder: pathlib.Path,
    epochs: float,
    title: str,
    *,
    schedule_epochs: float | None = None,
    probabilities: bool = False,
) -> Evaluation:
    """Trains plainly on some examples, and says what it has to of others.

    Args:
      trainer: Of the config.
      fitted: What is trained on.
      unseen: What is predicted.
      folder: Of the run, which goes on where it was cut.
      epochs: Of training.
      title: The name to show.
      schedule_epochs: As :func:`har_jax.experiment.build.make_method` takes it.
      probabilities: Whether to return those of all classes.
    """
    method, state = plain_run(
        trainer, fitted, folder, epochs, title, schedule_epochs=schedule_epochs
    )
    (result,) = trainer.evaluate(title, method, state, unseen, probabilities=probabilities)
    return result


def plain_run(
    trainer: Trainer,
    fitted: Examples,
    folder: pathlib.Path,
    epochs: float,
    title: str,
    *,
    schedule_epochs: float | None = None,
) -> tuple[Method, Any]:
    """A plain method and its state after training, restored where that is done.

    Args: As of :func:`predict_unseen`.
    """
    method = trainer.make_method(
        "erm", fitted.labels, epochs, schedule_epochs=schedule_epochs, reweighting=False
    )
    arrays = {"inputs": fitted.inputs, "labels": fitted.labels}
    return method, trainer.fit(method, arrays, folder, epochs, title=title)


def joined(
    parts: Sequence[np.ndarray], folds: Sequence[int], results: Sequence[Evaluation]
) -> OutOfSample:
    """What was said of some parts of the training set, each by a model of its own.

    Args:
      parts: Which examples each is.
      folds: The number of each.
      results: Of each.
    """
    return OutOfSample(
        index=np.concatenate(parts),
        fold=np.repeat(folds, [len(part) for part in parts]),
        prediction=np.concatenate([result.prediction for result in results]),
        loss=np.concatenate([result.loss for result in results]),
        confidence=np.concatenate([result.confidence for result in results]),
    )
