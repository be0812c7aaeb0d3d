"""What is said of training examples by models that did not see them."""

import dataclasses
import pathlib
import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from har_jax.data.examples import DataError
from har_jax.system.files import read_array
from har_jax.system.terminal import some

_LEAST = 1e-9  # which a probability of 0 counts as in a loss
_FEW = 10  # examples
_CONFUSED = 0.9  # the share of a class that is predicted as one other that is worth a word


@dataclasses.dataclass(frozen=True)
class OutOfSample:
    """Of m training examples, what a model said that did not see them.

    Attributes:
      index: ``[m]``, which examples.
      fold: ``[m]``, in which part of the training set each was held out.
      prediction: ``[m]``, the predicted class; -1 where an example could not be read.
      loss: ``[m]``, of the example's label, in nats.
      confidence: ``[m]``, the probability of the predicted class; None where it is not known.
    """

    index: Int[np.ndarray, " m"]
    fold: Int[np.ndarray, " m"]
    prediction: Int[np.ndarray, " m"]
    loss: Float[np.ndarray, " m"]
    confidence: Float[np.ndarray, " m"] | None = None

    def of_all(self, count: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """The prediction and the fold of each of n training examples, -1 where nothing is said."""
        read = self.prediction >= 0
        prediction, fold = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        prediction[self.index[read]] = self.prediction[read]
        fold[self.index[read]] = self.fold[read]
        return prediction, fold


def warn_of_confusion(
    said: OutOfSample, labels: Int[np.ndarray, " n"], class_names: Sequence[str], *, foreign: bool
) -> None:
    """Warns of classes that are taken for one other, as all are where columns are exchanged.

    Args:
      said: Of some or all of the n training examples.
      labels: As trained on.
      class_names: ``K``.
      foreign: Whether another program said it.
    """
    read, count = said.prediction >= 0, len(class_names)
    own = labels[said.index[read]].astype(np.int64)
    pairs, sizes = np.unique(count * own + said.prediction[read], return_counts=True)
    classes, taken_for = np.divmod(pairs, count)
    whole = np.bincount(own, minlength=count)[classes]
    nearly_all = (whole >= _FEW) & (sizes >= _CONFUSED * whole)
    rows = np.flatnonzero(nearly_all & (taken_for != classes)).tolist()
    if not rows:
        return
    shown = some(
        [
            f"{class_names[classes[row]]!r} for {class_names[taken_for[row]]!r} ({sizes[row]} of "
            f"{whole[row]})"
            for row in rows
        ]
    )
    remedy = "train the models longer (config.pretrain.epochs), or see whether a name is wrong"
    if foreign:
        remedy = "columns have to be in the order of classes.txt, beside labels.npy"
    warnings.warn(
        f"{len(rows)} of {count} classes are nearly always taken for one other: {shown}: {remedy}",
        stacklevel=2,
    )


def from_probabilities(
    probabilities: pathlib.Path,
    labels: pathlib.Path,
    own_labels: Int[np.ndarray, " n"],
    num_classes: int,
) -> OutOfSample:
    """Reads what another program said of the training examples, in their order.

    Args:
      probabilities: An ``.npy`` of ``[n, K]`` out-of-sample probabilities; a row of NaN stands for
        an example of which nothing is known.
      labels: An ``.npy`` of ``[n]``, the ids of the labels that they go with.
      own_labels: Those of the training set.
      num_classes: K.

    Raises:
      DataError: if the arrays are none of this training set, or the rows no probabilities.
      OSError: if a file cannot be read.
    """
    said, theirs = read_array(probabilities), read_array(labels)
    shape = (len(own_labels), num_classes)
    if said.shape != shape or not np.issubdtype(said.dtype, np.floating):
        raise DataError(
            f"{probabilities} holds {said.dtype}{list(said.shape)}: {list(shape)} floating-point "
            "numbers are needed, a row for each training example and a column for each class"
        )
    if not np.issubdtype(theirs.dtype, np.integer):
        raise DataError(f"{labels} holds {theirs.dtype}: ids of classes are needed, integers")
    if theirs.shape != own_labels.shape or np.any(differing := theirs != own_labels):
        where = f"{labels} is of shape {list(theirs.shape)}"
        if theirs.shape == own_labels.shape:
            row = int(np.argmax(differing))
            where = f"row {row} of {labels} is {theirs[row]}, of the training set {own_labels[row]}"
        raise DataError(
            f"{where}: the labels that the probabilities are of have to be those of the training "
            f"set, all {len(own_labels)} in its order, as labels.npy in a method's folder has them"
        )
    known = ~np.isnan(said).all(axis=1)
    index = np.flatnonzero(known)
    rows = np.asarray(said[index], np.float64)
    good = np.isclose(rows.sum(axis=1), 1, atol=1e-2) & np.all(rows >= 0, axis=1)
    if not len(index) or not good.all():
        row = int(index[np.argmin(good)]) if len(index) else 0
        raise DataError(
            f"row {row} of {probabilities} is {said[row].tolist()[:10]}: numbers that are not "
            "negative and add up to 1 are needed, or all NaN for an example of which nothing is "
            "known"
        )
    own = np.take_along_axis(rows, own_labels[index, None].astype(np.int64), axis=1)[:, 0]
    loss = -np.log(np.maximum(own, _LEAST))
    prediction = rows.argmax(axis=1).astype(np.int32)
    fold = np.zeros(len(index), np.int32)
    return OutOfSample(index, fold, prediction, loss, confidence=rows.max(axis=1))
