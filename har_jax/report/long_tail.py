"""How classes with many, some and few training examples fare: the numbers of a long tail.

Many-shot classes have more than 100 training examples, medium-shot classes 20 to 100, few-shot
classes fewer than 20: Liu et al. 2019 (arXiv 1904.05160), as the field has had it since.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from har_jax.data.protocol import TrainingData

SHOTS = ("many", "medium", "few")
_MANY, _MEDIUM = 100, 20


def shot_of(count: int) -> str:
    """The shot of a class with so many training examples, one of :data:`SHOTS`."""
    if count > _MANY:
        return "many"
    return "medium" if count >= _MEDIUM else "few"


def long_tail(
    data: TrainingData,
    predictions: Mapping[str, Int[np.ndarray, " t"]],
    parts: Mapping[str, Sequence[int]],
) -> dict[str, Any]:
    """The accuracy of every class, whatever the groups are, and means over those of each shot.

    Args:
      data: Whose labels say how frequent a class is, as they are trained on.
      predictions: By method, of every test example; -1 of one that could not be read.
      parts: By name, the classes that there are means of already.

    Returns:
      ``classes``, by id: ``class``, ``name``, ``n`` training examples, ``shot``, ``test_n`` and
      ``test_accuracy`` by method, which is None without test examples. ``shots``, by name: how
      many ``classes``, and the part that is the ``same_as`` they are, or None. ``class_means``, by
      method: ``all``, ``many``, ``medium`` and ``few``, the means over the classes that have test
      examples, None where none has, and ``examples``, the share of all test examples.
    """
    count_of = lambda labels: np.bincount(labels, minlength=data.num_classes).tolist()
    counts, tested = count_of(data.train.labels), count_of(data.test.labels)
    shots = [shot_of(count) for count in counts]
    members = {shot: [i for i, own in enumerate(shots) if own == shot] for shot in SHOTS}
    every = {"all": range(data.num_classes), **members}
    accuracies = {
        method: _by_class(prediction, data.test.labels, data.num_classes)
        for method, prediction in predictions.items()
    }
    return {
        "classes": [
            {
                "class": index,
                "name": name,
                "n": counts[index],
                "shot": shots[index],
                "test_n": tested[index],
                "test_accuracy": {
                    method: _known(shares[index]) for method, shares in accuracies.items()
                },
            }
            for index, name in enumerate(data.class_names)
        ],
        "shots": {
            shot: {
                "classes": len(own),
                "same_as": next((p for p, of in parts.items() if own and sorted(of) == own), None),
            }
            for shot, own in members.items()
        },
        "class_means": {
            method: {
                **{name: _mean(shares[list(own)]) for name, own in every.items()},
                "examples": _of_examples(predictions[method], data.test.labels),
            }
            for method, shares in accuracies.items()
        },
    }


def shots_of(results: Mapping[str, Any]) -> list[str]:
    """The shots that there are means of, from many to few; none where only one has any.

    Args:
      results: That :func:`long_tail` is a part of.
    """
    means = next(iter(results["class_means"].values()))
    found = [shot for shot in SHOTS if means[shot] is not None]
    return found if len(found) > 1 else []


def new_shots(results: Mapping[str, Any]) -> list[str]:
    """Those of :func:`shots_of` that are no part of the groups under another name."""
    return [shot for shot in shots_of(results) if results["shots"][shot]["same_as"] is None]


def _by_class(
    prediction: Int[np.ndarray, " t"], labels: Int[np.ndarray, " t"], count: int
) -> Float[np.ndarray, " K"]:
    """The accuracy of each class; NaN where there is nothing to count."""
    read = prediction >= 0
    right = np.bincount(labels[read & (prediction == labels)], minlength=count)
    there = np.bincount(labels[read], minlength=count)
    return np.where(there > 0, right / np.maximum(there, 1), np.nan)


def _of_examples(prediction: Int[np.ndarray, " t"], labels: Int[np.ndarray, " t"]) -> float | None:
    read = prediction >= 0
    return float(np.mean(prediction[read] == labels[read])) if read.any() else None


def _mean(shares: Float[np.ndarray, " k"]) -> float | None:
    there = shares[~np.isnan(shares)]
    return float(np.mean(there)) if len(there) else None


def _known(share: float) -> float | None:
    return None if np.isnan(share) else float(share)
