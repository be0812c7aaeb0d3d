"""The models that estimate the noise, each on a part of the training set."""

import pathlib
import warnings
from collections.abc import Sequence

import numpy as np
from ml_collections import config_dict

from har_jax.data import DataError, Examples, TrainingData
from har_jax.data.apart import Parts
from har_jax.system import seeds
from har_jax.system.files import write_array, write_arrays
from har_jax.system.processes import is_first
from har_jax.trainer import Trainer


def held_out_parts(config: config_dict.ConfigDict, train: Examples) -> list[np.ndarray]:
    """The examples that each model does not see.

    Args:
      config: A whole config.
      train: The training set.

    Raises:
      DataError: if there are too few, or too few groups where those are kept whole.
    """
    seed = seeds.derive(config.seed, "pretrain split")
    parts = Parts(bool(config.data.keep_groups_whole))
    if config.pretrain.folds is not None:
        return list(parts.folds(train, config.pretrain.folds, seed))
    fraction = 0.5 if config.pretrain.fraction is None else config.pretrain.fraction
    size = round(fraction * len(train))
    if not 0 < size < len(train):
        raise DataError(
            f"config.pretrain.fraction={fraction} of {len(train)} training examples leaves no "
            "example to train on, or none to predict"
        )
    return [parts.split(train, size, seed)[1]]


def warn_of_torn_groups(data: TrainingData, parts: Sequence[np.ndarray]) -> None:
    """Warns if groups are in several parts of the data that are to be apart.

    Args:
      data: Whose groups those are.
      parts: As :func:`held_out_parts` has them.
    """
    train = data.train.groups
    if train is None:
        return
    tested = np.unique(data.test.group_ids())
    torn = {"are trained on and tested on": (len(np.intersect1d(tested, train)), len(tested))}
    if parts:
        of_part = [np.unique(train[part]) for part in parts]
        seen = [np.unique(np.delete(train, part)) for part in parts]
        both = [np.intersect1d(*pair) for pair in zip(of_part, seen, strict=True)]
        count = len(np.unique(np.concatenate(both)))
        torn["are in several parts of what the noise is estimated from"] = (
            count,
            len(np.unique(train)),
        )
    shown = [
        f"{count} of {whole} groups {where}" for where, (count, whole) in torn.items() if count
    ]
    if shown:
        warnings.warn(
            f"{' and '.join(shown)}: if the examples of a group are alike, as those of one patient "
            "or camera, models are judged by what they have seen, which "
            "config.data.keep_groups_whole=True avoids; False says that they are not",
            stacklevel=3,
        )


def folders_of(config: config_dict.ConfigDict, path: pathlib.Path) -> list[pathlib.Path]:
    """The folder of each model, within that of all."""
    folds = config.pretrain.folds
    return [path] if folds is None else [path / f"fold-{fold}" for fold in range(folds)]


def pretrain(trainer: Trainer, path: pathlib.Path) -> None:
    """Trains each model plainly, and lets it predict what it did not see.

    Leaves ``held_out.npz``, the arrays of :class:`har_jax.out_of_sample.OutOfSample`, and, where
    there are folds, ``probabilities.npy``: ``[n, K]``, of all examples in their order.
    """
    config, train = trainer.config, trainer.data.train
    epochs = config.pretrain.epochs
    folded = config.pretrain.folds is not None
    parts = held_out_parts(config, train)
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
    )
