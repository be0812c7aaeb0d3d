"""What is said of training examples by models that did not see them, and the noise it shows."""

import dataclasses
import pathlib
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from har_jax.data.examples import DataError
from har_jax.strength import GroupStatistics, group_statistics
from har_jax.system.files import read_array
from har_jax.system.terminal import some

_LEAST = 1e-9  # which a probability of 0 counts as in a loss
_FEW, _MANY = 10, 100  # examples
_CONFUSED = 0.9  # the share of a class that is predicted as one other that is worth a word
_KEPT_DOWN = 0.8  # the share of the largest strength that is worth a word


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


class Estimates(NamedTuple):
    """The statistics of every group, and those of every fold by itself.

    Attributes:
      pooled: From all folds.
      folds: From each; only one where there is one.
    """

    pooled: GroupStatistics
    folds: tuple[GroupStatistics, ...]


def estimate(
    said: OutOfSample,
    labels: Int[np.ndarray, " n"],
    groups: Int[np.ndarray, " n"],
    names: Sequence[str],
    smoothing: float | None,
) -> Estimates:
    """Estimates the noise and the frequency of every group.

    Args:
      said: Of some or all of the n training examples.
      labels: As trained on.
      groups: In ``[0, G)``.
      names: ``G``, of the groups.
      smoothing: As :func:`har_jax.group_statistics` takes it; folds by themselves are not smoothed.

    Warns:
      UserWarning: if a model errs as often as one that always names the most frequent class, if
        a small group keeps the strengths of all others down, and as
        :func:`har_jax.group_statistics` does.
    """
    read = said.prediction >= 0
    index, fold = said.index[read], said.fold[read]
    wrong = said.prediction[read] != labels[index]
    ids = np.arange(len(names))
    pooled = group_statistics(groups, groups[index], wrong, ids=ids, smoothing=smoothing)
    _warn_of_guessing(labels, labels[index], said.prediction[read])
    _warn_of_small_groups(pooled, names)
    with warnings.catch_warnings():
        # Of small groups: what holds for all folds is told above.
        warnings.filterwarnings("ignore", r"groups \[.*\] have no (training|validation) example")
        folds = tuple(
            group_statistics(groups, groups[index[fold == part]], wrong[fold == part], ids=ids)
            for part in np.unique(fold)
        )
    return Estimates(pooled, folds)


def _warn_of_guessing(labels: np.ndarray, own: np.ndarray, predictions: np.ndarray) -> None:
    """Warns if predictions agree with the labels no more than if they had nothing to do with them.

    Args:
      labels: Of the training set.
      own: Of what was predicted.
      predictions: As many.
    """
    share = float(np.mean(own != predictions))
    guessing = 1 - float(np.bincount(labels).max()) / len(labels)
    count = max(own.max(), predictions.max()) + 1
    shares = [np.bincount(ids, minlength=count) / len(ids) for ids in (own, predictions)]
    chance = 1 - float(np.sum(np.prod(shares, axis=0)))  # of the same rows in any order
    least = chance - 3 * float(np.sqrt(chance * (1 - chance) / len(own)))
    if share >= guessing:
        than = f"by always naming the most frequent class {100 * guessing:.0f}%"
    elif len(own) >= _MANY and share > least:
        than = f"in a random order {100 * chance:.0f}%"
    else:
        return
    warnings.warn(
        f"of what was held out {100 * share:.0f}% is predicted wrongly, and {than} would be: what "
        "is found of noise means little; train the models longer (config.pretrain.epochs), or with "
        "another learning rate, or take better probabilities, whose rows are in the order of "
        "labels.npy",
        stacklevel=3,
    )


def _warn_of_small_groups(statistics: GroupStatistics, names: Sequence[str]) -> None:
    """Warns where the largest tau, by which all are scaled, is that of groups of few examples."""
    small = (statistics.count > 0) & (statistics.count < _FEW)
    others = statistics.tau[~small].max(initial=0.0)
    leading = np.flatnonzero(small & (statistics.tau > others / _KEPT_DOWN))
    if others == 0 or not len(leading):
        return
    leading = leading[np.argsort(-statistics.tau[leading], kind="stable")]
    wrong = np.nan_to_num(statistics.observed_error) * statistics.validation_count
    shown = ", ".join(
        f"{names[group]!r} ({statistics.count[group]} examples, of "
        f"{statistics.validation_count[group]} held out "
        f"{wrong[group]:.0f} wrong)"
        for group in leading[:3]
    )
    more = f" and {len(leading) - 3} more" if len(leading) > 3 else ""
    warnings.warn(
        f"small groups keep the strengths of all others down: {shown}{more}, have the largest tau, "
        "so that none of the others gets more than "
        f"{100 * others / statistics.tau.max():.0f}% of config.regularizer.strength: join them "
        "with others, leave them out, or raise that strength",
        stacklevel=3,
    )


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


def by_fold(estimates: Estimates) -> dict[str, np.ndarray]:
    """``[F, G]``: the observed error, its standard error, and the examples counted."""
    names = ("observed_error", "standard_error", "validation_count")
    return {name: np.stack([getattr(fold, name) for fold in estimates.folds]) for name in names}
