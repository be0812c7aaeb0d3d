"""Labels from a file in the place of a training set's own, which stay known as true."""

import collections
import dataclasses
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.label_files import KEY, LabelFile
from har_jax.data.reading.encoded import ImageFiles

_MANY = 100  # examples


def ids_of(examples: Examples) -> Sequence[str] | None:
    """What each example is called: as the source says, or else the path of its file.

    None where it is an array or a text without a name.
    """
    if examples.ids is not None:
        return [str(id) for id in examples.ids]
    return examples.inputs.names if isinstance(examples.inputs, ImageFiles) else None


def relabelled(
    dataset: Dataset, labels: Mapping[str, int], file: LabelFile, source: str
) -> Dataset:
    """Gives training examples the labels of a file, joined on their ids.

    Args:
      dataset: As a source loads it.
      labels: The ids of classes by the ids of examples, those of other parts perhaps among them.
      file: From which they are.
      source: Whose examples they are, for errors.

    Returns:
      The same data, whose training examples know their own labels as ``true_labels``. Other parts
      keep theirs.

    Raises:
      DataError: if the training examples have no ids, or one id twice; if one has no label, or a
        label is of no example; if labels that a file has in an order only, as an ``.npy``, agree
        with the source's own no more than in any order.

    Warns:
      UserWarning: if others do not agree more than that.
    """
    train, said = dataset.train, f"config.{KEY}={str(file.path)!r}"
    ids = ids_of(train)
    if ids is None:
        raise DataError(
            f"{said} is joined on ids, and the training examples of {source} have none: a set of "
            "TFDS has a feature id or none, a table of texts needs a column id, and a source of "
            "your own gives har_jax.data.Examples their ids"
        )
    _refuse_doubles(train, ids, source)
    without = [id for id in ids if id not in labels]
    if without:
        raise DataError(
            f"{len(without)} of the {len(ids)} training examples of {source} have no label in "
            f"{file.path}, the first of them {without[0]!r}; its ids are such as {file.ids[0]!r}: "
            "give every one a label"
        )
    trained = set(ids)
    others = {id for part in dataset.splits.values() if part is not train for id in _known(part)}
    for row, id in enumerate(file.ids):
        if id not in trained and id not in others:
            raise DataError(
                f"{file.places[row]} of {file.path} has the id {id!r}, which no example of "
                f"{source} has, where they are such as {ids[0]!r}: leave it out"
            )
    given = np.array([labels[id] for id in ids], train.labels.dtype)
    _compare(given, train.labels, file, said)
    found = dataset.found.counted(
        {f"labels of {file.path.name} of no training example": len(labels) - len(trained)}
    )
    train = dataclasses.replace(train, labels=given, true_labels=train.labels)
    return dataclasses.replace(dataset, train=train, found=found)


def _known(examples: Examples) -> Sequence[str]:
    ids = ids_of(examples)
    return () if ids is None else ids


def _refuse_doubles(train: Examples, ids: Sequence[str], source: str) -> None:
    """That an id is that of one example; a path may be there twice, being of one file."""
    (id, count), *_ = collections.Counter(ids).most_common(1)
    if train.ids is not None and (count > 1 or "" in ids):
        count, id = (ids.count(""), "") if "" in ids else (count, id)
        raise DataError(
            f"config.{KEY} is joined on ids, and {count} training examples of {source} have the id "
            f"{id!r}: give each its own"
        )


def _compare(given: np.ndarray, own: np.ndarray, file: LabelFile, said: str) -> None:
    """Looks whether labels agree with the source's own more than in a random order."""
    shares = [np.bincount(labels, minlength=1 + max(given.max(), own.max())) / len(own)
              for labels in (given, own)]  # fmt: skip
    chance = float(np.sum(np.prod(shares, axis=0)))
    agreeing = float(np.mean(given == own))
    spread = float(np.sqrt(chance * (1 - chance) / len(own)))
    if chance == 1 or agreeing > chance + (3 * spread if len(own) >= _MANY else 0):
        return
    told = (
        f"{said}: {100 * agreeing:.0f}% of the labels are the source's own, and in a random order "
        f"{100 * chance:.0f}% would be"
    )
    if file.path.suffix.lower() == ".npy":
        raise DataError(f"{told}: they are not in the order of the ids.txt beside it")
    warnings.warn(f"{told}: see whether they are those of these ids", stacklevel=4)
