"""Examples whose labels are known to be right, which some methods learn from beside the others."""

import dataclasses
import warnings

import numpy as np
from jaxtyping import Int

from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.found import Found


def set_apart(
    dataset: Dataset, train: Examples, size: int | None, seed: int, *, labels_are_right: bool
) -> tuple[Examples, Examples | None, Found]:
    """Takes examples that are known to be labelled rightly out of a training set.

    Args:
      dataset: What a source loads, which may have a split of them.
      train: Its training set, or a part of it.
      size: How many are taken, as many of each class; None for those of the split, if there is one.
      seed: The choice depends on nothing else.
      labels_are_right: Whether the source's own are: wrong ones are made later on, or given.

    Returns:
      What is trained on, without examples that equal one of them; these, or None; and what is to be
      said of both.

    Raises:
      DataError: if they are given twice, or cannot be taken.

    Warns:
      UserWarning: if the labels that are taken for right are not known to be.
    """
    found, meta = dataset.found, dataset.meta
    if size is not None and meta is not None:
        raise DataError(
            f"config.data.meta_size={size} is not read, since the data have a split meta: remove "
            "one of the two"
        )
    if size is not None:
        known = train.known_labels()
        taken, rest = balanced_split(known, size, len(dataset.class_names), seed)
        if not labels_are_right:
            warnings.warn(
                f"config.data.meta_size={size} examples count as labelled rightly, as they are, "
                "since neither config.data.noise nor config.data.labels brings wrong ones: of data "
                "with wrong labels of their own, give those that you have looked through as a "
                "split called meta",
                stacklevel=3,
            )
        how = "without noise" if train.true_labels is None else "with the source's own labels"
        origin = f"{found.splits.get('train', 'the training set')}, {how}"
        found = dataclasses.replace(found, splits={**found.splits, "meta": origin})
        meta = dataclasses.replace(train.take(taken), labels=known[taken], true_labels=None)
        train = train.take(rest)
    if meta is None or meta.content is None or train.content is None:
        return train, meta, found
    copies = np.isin(train.content, meta.content)
    if np.all(copies):
        raise DataError("every training example equals one of meta: nothing is left to train on")
    told = {"left out: training examples that equal one of meta": int(np.sum(copies))}
    return train.take(np.flatnonzero(~copies)), meta, found.counted(told)


def balanced_split(
    labels: Int[np.ndarray, " n"], size: int, num_classes: int, seed: int
) -> tuple[Int[np.ndarray, " size"], Int[np.ndarray, " rest"]]:
    """Takes as many examples of each class at random, up to one, and leaves the rest.

    Args:
      labels: ``[n]``, in ``[0, K)``.
      size: How many are taken.
      num_classes: K.
      seed: The choice depends on nothing else.

    Returns:
      The indices of what is taken and of the rest, ascending.

    Raises:
      DataError: if there are more classes than are to be taken, or a class would be left empty.
    """
    if size < num_classes:
        raise DataError(
            f"config.data.meta_size={size} is less than one example of each of {num_classes} "
            "classes: take more"
        )
    rng = np.random.default_rng(seed)
    shares = np.full(num_classes, size // num_classes)
    shares[rng.permutation(num_classes)[: size % num_classes]] += 1
    counts = np.bincount(labels, minlength=num_classes)
    if np.any(short := counts <= shares):
        label = int(np.argmax(short))
        raise DataError(
            f"config.data.meta_size={size} takes {shares[label]} examples of each class, and class "
            f"{label} has {counts[label]} in all: take fewer, so that some are left to train on"
        )
    taken = np.concatenate(
        [
            rng.permutation(np.flatnonzero(labels == label))[:share]
            for label, share in enumerate(shares.tolist())
        ]
    )
    return np.sort(taken), np.setdiff1d(np.arange(len(labels)), taken)
