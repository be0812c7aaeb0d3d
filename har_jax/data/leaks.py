"""Equal examples that are trained on and tested on, or are labelled differently."""

import dataclasses
import warnings
from collections.abc import Mapping
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
    train_ids = _content(dataset.train)
    test_ids = np.concatenate([_content(examples) for examples in dataset.tested.values()])
    leaks, learned = {}, dataset.learned
    for name, part in learned.items():
        leaked = np.isin(_content(part), test_ids)
        leaks[name] = int(np.sum(leaked))
        if on_leak == "stop" and leaks[name]:
            _refuse(name, part, dataset.tested)
        elif on_leak == "drop":
            learned[name] = part.take(np.flatnonzero(~leaked))
        if not len(learned[name]):
            raise DataError(
                f"config.data.on_leak=drop leaves nothing to train on: all of {name} is in test"
            )
    train = learned["train"]
    _warn_of_conflicts(dataset, train_ids)
    if on_leak == "keep":
        train = dataclasses.replace(train, content=None)
    what = "kept" if on_leak == "keep" else "left out"
    found = dataset.found.counted(
        {
            f"{what}: training examples that equal one that is tested on": leaks["train"],
            f"{what}: examples of meta that equal one that is tested on": leaks.get("meta", 0),
            "training examples that equal one before": len(train_ids) - len(np.unique(train_ids)),
        }
    )
    return dataclasses.replace(dataset, train=train, meta=learned.get("meta"), found=found)


def _refuse(name: str, part: Examples, tests: Mapping[str, Examples]) -> None:
    """Raises :class:`DataError` if a part that is learned from has examples that are tested on."""
    for split, examples in tests.items():
        if len(rows := np.flatnonzero(np.isin(_content(examples), _content(part)))):
            twin = int(np.argmax(_content(part) == _content(examples)[rows[0]]))
            raise DataError(
                f"{len(rows)} of the {len(examples)} examples of {split} are in {name} too, by "
                f"content: the first is {_name(examples, rows[0])}, which equals "
                f"{_name(part, twin)}: take them out of one of the two, or set "
                "config.data.on_leak=drop, which trains without them, or keep"
            )


def _compared(dataset: Dataset) -> Dataset:
    """The data with the contents of all parts, which they have if one was made of another."""
    parts = dataset.splits
    if not dataset.others and all(part.content is not None for part in parts.values()):
        return dataset
    ids = content_ids([part.inputs for part in parts.values()])
    known = {
        name: dataclasses.replace(part, content=content)
        for (name, part), content in zip(parts.items(), ids, strict=True)
    }
    others = {name: known[name] for name in dataset.others}
    train, test, meta = known["train"], known["test"], known.get("meta")
    return dataclasses.replace(dataset, train=train, test=test, meta=meta, others=others)


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
