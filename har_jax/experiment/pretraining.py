"""The models that estimate the noise, each on a part of the training set."""

import pathlib

import numpy as np
from ml_collections import config_dict

from har_jax.data import Examples
from har_jax.data.apart import Parts
from har_jax.estimation.held_out import held_out_parts
from har_jax.experiment.trainer import Trainer
from har_jax.system import seeds
from har_jax.system.files import write_array, write_arrays
from har_jax.system.processes import is_first


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
        method = trainer.make_method("erm", fitted.labels, epochs, reweighting=False)
        arrays = {"inputs": fitted.inputs, "labels": fitted.labels}
        state = trainer.fit(method, arrays, folder, epochs, title=title)
        (result,) = trainer.evaluate(
            title, method, state, train.take(held_out), probabilities=folded
        )
        results.append(result)
    index = np.concatenate(parts)
    trainer.describe_data(path)
    if not is_first():
        return
    if folded:
        probabilities = np.concatenate([result.probabilities for result in results])
        write_array(path / "probabilities.npy", probabilities[np.argsort(index)])
    write_arrays(
        path / "held_out.npz",
        index=index,
        fold=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        prediction=np.concatenate([result.prediction for result in results]),
        loss=np.concatenate([result.loss for result in results]),
        confidence=np.concatenate([result.confidence for result in results]),
    )
