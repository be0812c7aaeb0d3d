"""From what models say of examples that they did not see to tau, as a config says."""

import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from har_jax.data import Examples
from har_jax.estimation.calibration import calibrated
from har_jax.estimation.estimate import Estimated, estimate
from har_jax.estimation.groupings import GROUPINGS
from har_jax.estimation.noises import NOISES
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.experiment.pretraining import folders_of, held_out_of, plain_run
from har_jax.experiment.trainer import Trainer
from har_jax.experiment.workdir import WorkdirError
from har_jax.models.layers.classifier import features_of
from har_jax.options import make
from har_jax.system import seeds
from har_jax.train.evaluate import ByExample


class Facts(NamedTuple):
    """What groupings and noises read of the training examples.

    Attributes:
      given: By name, of :data:`har_jax.estimation.groupings.READS`.
      temperatures: By fold, of the probabilities; none where these are not read.
    """

    given: Mapping[str, Any]
    temperatures: Mapping[str, float]


def facts_of(
    trainer: Trainer,
    said: OutOfSample,
    probabilities: Callable[[], Float[np.ndarray, "n K"]],
    pretrained: pathlib.Path,
    needed: Collection[str],
) -> Facts:
    """Reads what is needed to group the training examples, and to see their noise.

    Args:
      trainer: Of the config.
      said: Of some or all of the training examples.
      probabilities: Gives those of all, rows of NaN where nothing is known.
      pretrained: The folder of the pre-trained models.
      needed: The names of what is read.

    Raises:
      WorkdirError: if a model is needed whose checkpoint is gone.
    """
    data = trainer.data
    labels = data.train.labels.astype(np.int64)
    prediction, fold = said.of_all(len(labels))
    given: dict[str, Any] = {
        "labels": labels,
        "class_names": tuple(data.class_names),
        "groups": data.train.group_ids().astype(np.int64),
        "group_names": tuple(data.group_names),
        "prediction": prediction,
        "seed": seeds.derive(trainer.config.seed, "groups"),
    }
    temperatures: dict[str, float] = {}
    if "probabilities" in needed:
        given["probabilities"], temperatures = calibrated(probabilities(), labels, fold)
    if "features" in needed:
        given["features"], given["spaces"] = _features(trainer, pretrained)
    return Facts(given, temperatures)


def estimate_from(facts: Facts, chosen: Mapping[str, Any]) -> Estimated:
    """Estimates tau of the training examples.

    Args:
      facts: What the choices need.
      chosen: ``config.estimate``.
    """
    neighbourhoods = make(GROUPINGS[chosen["groups"]], chosen=chosen, given=facts.given)
    noise = make(NOISES[chosen["noise"]], chosen={}, given=facts.given)
    return estimate(neighbourhoods, noise, chosen["smoothing"], facts.temperatures)


def _features(
    trainer: Trainer, path: pathlib.Path
) -> tuple[Float[np.ndarray, "n F"], Int[np.ndarray, " n"]]:
    """The features of every training example, and by which network they are.

    That is the one that did not see it, or the only one there is.
    """
    config, train = trainer.config, trainer.data.train
    folded = config.pretrain.folds is not None
    found, spaces = [], np.zeros(len(train), np.int64)
    for fold, (held_out, folder) in enumerate(
        zip(held_out_of(config, train), folders_of(config, path), strict=True)
    ):
        if not any(folder.glob("checkpoints/*")):
            raise WorkdirError(
                f"{folder}/checkpoints is gone, from which config.estimate.groups="
                f"{config.estimate.groups!r} takes features: delete {path} to train it anew"
            )
        fitted = train.take(np.setdiff1d(np.arange(len(train)), held_out))
        rows = held_out if folded else np.arange(len(train))
        spaces[rows] = fold
        found.append((rows, _features_by(trainer, fitted, train.take(rows), folder)))
    features = np.empty((len(train), found[0][1].shape[1]), np.float32)
    for rows, part in found:
        features[rows] = part
    return np.nan_to_num(features), spaces  # 0 of what could not be read


def _features_by(
    trainer: Trainer, fitted: Examples, examples: Examples, folder: pathlib.Path
) -> Float[np.ndarray, "m F"]:
    """What a model that was trained on some examples makes of others."""
    epochs = trainer.config.pretrain.epochs
    method, state = plain_run(trainer, fitted, folder, epochs, folder.name)
    features = features_of(method.predict)
    describe = ByExample(
        lambda variables, inputs, labels: {"features": features(variables, inputs)},
        min(2 * trainer.at_once, 512),
        trainer.mesh,
    )
    return describe(state.variables, examples)["features"]
