"""Which examples are held out from the models that estimate the noise."""

import warnings
from collections.abc import Sequence

import numpy as np

from har_jax.data import DataError, Examples, TrainingData
from har_jax.data.apart import Parts

_FRACTION = 0.5  # of the training set, on which the one model is trained


def held_out_parts(
    train: Examples, parts: Parts, seed: int, *, fraction: float | None, folds: int | None
) -> list[np.ndarray]:
    """The examples that each model does not see.

    Args:
      train: The training set.
      parts: What is kept together.
      seed: Of the split.
      fraction: That one model is trained on; None for a half.
      folds: How many models there are, each trained on what is not of its fold; None for one.

    Raises:
      DataError: if there are too few, or too few groups where those are kept whole.
    """
    if folds is not None:
        return list(parts.folds(train, folds, seed))
    fraction = _FRACTION if fraction is None else fraction
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
