"""Equal examples that are trained on and tested on, or are labelled differently."""

import dataclasses
import warnings
from typing import Literal

import numpy as np

from har_jax.data.equal import content_ids
from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.reading.encoded import EncodedImages
from har_jax.data.reading.texts import are_texts

OnLeak = Literal["stop", "drop", "keep"]
"""What to do with training examples that equal one that is tested on: end with an error, leave them
out of the training set, or go on with them."""


def mend_leaks(dataset: Dataset, on_leak: OnLeak) -> Dataset:
    """Looks for training examples that equal test examples, and for those that equal each other.

    Returns:
      The same data, without the former where they are to be dropped, and with what was found. Equal
      examples have one ``content``, so that they come into one part, unless they are to be kept as
      they are.

    Raises:
      DataError: if there are some, and they are neither to be dropped nor to be kept; or if nothing
        would be left.

    Warns:
      UserWarning: if training examples that equal each other have different labels.
    """
    dataset = _compared(dataset)
    tests = {"test": dataset.test, **dataset.others}
    train_ids = _content(dataset.train)
    test_ids = [_content(examples) for examples in tests.values()]
    leaks = np.isin(train_ids, np.concatenate(test_ids))
    if np.any(leaks) and on_leak == "stop":
        for (split, examples), ids in zip(tests.items(), test_ids, strict=True):
            if len(rows := np.flatnonzero(np.isin(ids, train_ids))):
                twin = int(np.argmax(train_ids == ids[rows[0]]))
                raise DataError(
                    f"{len(rows)} of the {len(examples)} examples of {split} are in train too, by "
                    f"content: the first is {_name(examples, rows[0])}, which equals "
                    f"{_name(dataset.train, twin)}: take them out of one of the two, or set "
                    "config.data.on_leak=drop, which trains without them, or keep"
                )
    train = dataset.train.take(np.flatnonzero(~leaks)) if on_leak == "drop" else dataset.train
    if not len(train):
        raise DataError("config.data.on_leak=drop leaves nothing to train on: all of it is in test")
    _warn_of_conflicts(dataset, train_ids)
    if on_leak == "keep":
        train = dataclasses.replace(train, content=None)
    found = dataset.found.counted(
        {
            f"{'kept' if on_leak == 'keep' else 'left out'}: training examples that equal one that "
            "is tested on": int(np.sum(leaks)),
            "training examples that equal one before": len(train_ids) - len(np.unique(train_ids)),
        }
    )
    return dataclasses.replace(dataset, train=train, found=found)


def _compared(dataset: Dataset) -> Dataset:
    """The data with the contents of all parts, which they have if one was made of another."""
    parts = (dataset.train, dataset.test, *dataset.others.values())
    if not dataset.others and all(part.content is not None for part in parts):
        return dataset
    ids = content_ids([part.inputs for part in parts])
    train, test, *others = (
        dataclasses.replace(part, content=content) for part, content in zip(parts, ids, strict=True)
    )
    named = dict(zip(dataset.others, others, strict=True))
    return dataclasses.replace(dataset, train=train, test=test, others=named)


def _content(examples: Examples) -> np.ndarray:
    assert examples.content is not None
    return examples.content


def _warn_of_conflicts(dataset: Dataset, ids: np.ndarray) -> None:
    """Warns of training examples that equal each other and have different labels."""
    train = dataset.train
    order = np.argsort(ids, kind="stable")
    same = ids[order[1:]] == ids[order[:-1]]
    differ = train.labels[order[1:]] != train.labels[order[:-1]]
    pairs = np.flatnonzero(same & differ)
    if not len(pairs):
        return
    shown = " and ".join(
        f"{_name(train, row)} as {dataset.class_names[train.labels[row]]!r}"
        for row in order[pairs[0] : pairs[0] + 2]
    )
    warnings.warn(
        f"{len(np.unique(ids[order[pairs]]))} training examples are there more than once, with "
        f"different labels: the first is {shown}: leave one of each, unless this is the noise that "
        "is to be trained on",
        stacklevel=3,
    )


def _name(examples: Examples, row: int) -> str:
    inputs = examples.inputs
    if isinstance(inputs, EncodedImages):
        return str(inputs.names[row])
    return repr(inputs[row][:60]) if are_texts(inputs) else f"example {row}"
