"""The share of labels that are wrong, by what was said of them out of sample."""

import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.system.terminal import some

_LOST = 0.9  # the share of a class that is worth a word


def noise_rate(said: OutOfSample, labels: Int[np.ndarray, " n"]) -> float:
    """Estimates the share of the training set's labels that are wrong.

    By the confident joint of Northcutt et al. 2021 (arXiv 1911.00068): a prediction counts if it
    is at least as probable as the class is on average where it is the label, and the share of
    those that contradict an example's label is taken in each class by itself, so that classes of
    which a model is less sure do not count as noisy. Only the likeliest class of an example is
    looked at.

    Args:
      said: Of some or all of the n training examples, with its ``confidence``.
      labels: As trained on.

    Returns:
      A share in ``[0, 1]``; 0 where nothing counts.
    """
    assert said.confidence is not None
    read = said.prediction >= 0
    own, predicted = labels[said.index[read]], said.prediction[read]
    count = int(max(labels.max(), predicted.max(initial=0))) + 1
    sizes = np.bincount(own, minlength=count)
    usual = np.bincount(own, np.exp(-said.loss[read]), count) / np.maximum(sizes, 1)
    counts = (said.confidence[read] >= usual[predicted]) & (sizes[predicted] > 0)
    counted = np.bincount(own[counts], minlength=count)
    wrong = np.bincount(own[counts & (own != predicted)], minlength=count)
    share = wrong / np.maximum(counted, 1)
    return float(np.sum(share * np.bincount(labels, minlength=count)) / len(labels))


def leaves_nothing(rate: float, batch_size: int) -> bool:
    """Whether less than one example of a batch is left without that share of it."""
    return rate * batch_size > batch_size - 1


def warn_of_lost_classes(
    method: str,
    labels: Int[np.ndarray, " n"],
    trained: Int[np.ndarray, " n"],
    class_names: Sequence[str],
    longer: str = "config.pretrain.epochs",
) -> None:
    """Warns of classes nearly all of whose examples are left out or relabelled.

    Args:
      method: Its name.
      labels: Of the training set.
      trained: What examples are trained with, -1 of those that are left out.
      class_names: ``K``.
      longer: The key that says how long the models are trained by which labels are judged.
    """
    count = len(class_names)
    before = np.bincount(labels, minlength=count)
    kept = np.bincount(labels[labels == trained], minlength=count)
    lost = np.flatnonzero((before > 0) & (before - kept >= _LOST * before))
    if len(lost):
        named = [
            f"{class_names[k]!r} ({before[k] - kept[k]} of {before[k]})" for k in lost.tolist()
        ]
        warnings.warn(
            f"{method} takes nearly all labels of {len(lost)} of {count} classes for wrong, "
            f"{some(named)}: the models that say so may not have learned them; train these longer "
            f"({longer})",
            stacklevel=2,
        )
