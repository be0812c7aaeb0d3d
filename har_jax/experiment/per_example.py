"""What a method says of each training example: its label in training, and its strength."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from ml_collections import config_dict

from har_jax.config import own
from har_jax.estimation.noise_rate import warn_of_lost_classes
from har_jax.experiment.build import method_options
from har_jax.experiment.workdir import StageError
from har_jax.methods import Setting
from har_jax.options import make


def labels_by(
    method: str, config: config_dict.ConfigDict, setting: Setting, class_names: Sequence[str]
) -> Int[np.ndarray, " n"]:
    """The labels that a method is trained with, -1 of examples that it leaves out.

    Args:
      method: As the config names it.
      config: Which has its options.
      setting: What is known of the examples.
      class_names: ``K``.

    Raises:
      StageError: if its function fails, or returns something else.
    """
    entry = own.entry_of(method)
    if entry.labels is None:
        return setting.labels
    said, count = f"config.methods={method!r}", len(class_names)
    try:
        labels = make(entry.labels, setting, chosen=method_options(method, config))
    except ValueError as error:
        raise StageError(f"{said}: {error}") from error
    fits = isinstance(labels, np.ndarray) and labels.shape == setting.labels.shape
    if not fits or labels.dtype.kind != "i" or not np.all((labels >= -1) & (labels < count)):
        raise StageError(
            f"{said}: its labels must be an array of shape {setting.labels.shape} of ids of "
            "classes, -1 of examples that are left out"
        )
    if not np.any(labels >= 0):
        raise StageError(f"{said} leaves no example to train on")
    warn_of_lost_classes(own.method_name(method), setting.labels, labels, class_names)
    return np.asarray(labels, setting.labels.dtype)


def strength_by(
    method: str, config: config_dict.ConfigDict, setting: Setting
) -> Float[np.ndarray, " n"] | None:
    """The factor of R of every training example; None where nothing is regularized.

    Args:
      method: As the config names it.
      config: Which has its options.
      setting: What is known of the examples.

    Raises:
      StageError: if its function fails, or returns something else.
    """
    entry = own.entry_of(method)
    if entry.strength is None:
        return None
    try:
        strength = make(entry.strength, setting, chosen=method_options(method, config))
    except ValueError as error:
        name = own.method_name(method)
        raise StageError(f"{name}: {error}; config.estimate.smoothing can help") from error
    shape = setting.labels.shape
    fits = isinstance(strength, np.ndarray) and strength.shape == shape
    if not fits or not np.all(np.isfinite(strength) & (strength >= 0)):
        raise StageError(
            f"config.methods={method!r}: its strengths must be an array of shape {shape} of finite "
            "numbers that are not negative"
        )
    return np.asarray(strength)
