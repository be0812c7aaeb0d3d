"""What a source loads: arrays of examples, checked once."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from jaxtyping import Int

from har_jax.data.found import Found


class Inputs(Protocol):
    """What examples have beside labels: an array, or something that stands for one.

    ``[n, ...]``; taking rows out of it gives another.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


class DataError(ValueError):
    """Data that cannot be used: the message names what, where, and the remedy."""


@dataclasses.dataclass(frozen=True)
class Examples:
    """Inputs with integer labels.

    Attributes:
      inputs: ``[n, ...]``: an array, :class:`har_jax.data.reading.encoded.EncodedImages`, or an
        array of strings, until a vocabulary makes ids of them.
      labels: ``[n]``, int32.
      groups: ``[n]``, int32: the group that each is regularized with; None where that is its
        class.
      texts: ``[n]`` strings, where inputs are the ids of their words.
      content: ``[n]``, int64: equal examples have one number; None where nobody asks.
      ids: ``[n]`` strings, what the source calls each; None where it has no names, or these are
        the paths of files.
      true_labels: ``[n]``, int32: the source's own, where ``labels`` are others; None where they
        are not.
    """

    inputs: Inputs
    labels: Int[np.ndarray, " n"]
    groups: Int[np.ndarray, " n"] | None = None
    texts: np.ndarray | None = None
    content: Int[np.ndarray, " n"] | None = None
    ids: np.ndarray | None = None
    true_labels: Int[np.ndarray, " n"] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Int[np.ndarray, " m"]) -> "Examples":
        """The examples of these indices."""
        of = lambda array: None if array is None else array[index]
        return Examples(
            self.inputs[index],
            self.labels[index],
            of(self.groups),
            of(self.texts),
            of(self.content),
            of(self.ids),
            of(self.true_labels),
        )

    @property
    def has_equal(self) -> bool:
        """Whether some are known to be equal."""
        return self.content is not None and len(np.unique(self.content)) < len(self)

    def known_labels(self) -> Int[np.ndarray, " n"]:
        """What the label of each is known to be: the source's own."""
        return self.labels if self.true_labels is None else self.true_labels

    def group_ids(self) -> Int[np.ndarray, " n"]:
        """The group of each: as given, or else its label."""
        return self.labels if self.groups is None else self.groups


class Splits:
    """The parts by name of what has these fields."""

    train: Examples
    meta: Examples | None
    test: Examples
    others: Mapping[str, Examples]

    @property
    def learned(self) -> dict[str, Examples]:
        """Those that are learned from."""
        meta = {} if self.meta is None else {"meta": self.meta}
        return {"train": self.train, **meta}

    @property
    def tested(self) -> dict[str, Examples]:
        """Those that are evaluated on."""
        return {"test": self.test, **self.others}

    @property
    def splits(self) -> dict[str, Examples]:
        """All of them."""
        return {**self.learned, **self.tested}


@dataclasses.dataclass(frozen=True)
class Dataset(Splits):
    """A training and a test set.

    Attributes:
      train: As the source has them; protocols may corrupt them later.
      test: Never corrupted.
      class_names: ``K`` names.
      group_names: ``G`` names; those of the classes where examples have no groups of their own.
      others: Further test sets, by name.
      found: Where all that comes from, and what was left out of it.
      meta: Examples beside the training set whose labels are known to be right, if there are some.
    """

    train: Examples
    test: Examples
    class_names: tuple[str, ...]
    group_names: tuple[str, ...] | None = None
    others: Mapping[str, Examples] = dataclasses.field(default_factory=dict)
    found: Found = dataclasses.field(default_factory=Found)
    meta: Examples | None = None

    def __post_init__(self) -> None:
        if len(self.class_names) < 2:
            raise DataError(
                f"the classes are {', '.join(self.class_names) or 'none'}: two are needed at least"
            )
        for name in self.class_names:
            if len(name.splitlines()) > 1:
                raise DataError(f"the class {name!r} has a name of several lines: rename it")
        for split, examples in self.splits.items():
            if not len(examples):
                raise DataError(f"{split}: there are no examples")
            check_labels(examples.labels, len(self.class_names), split)
            if len(examples.inputs) != len(examples.labels):
                raise DataError(
                    f"{split}: {len(examples.inputs)} inputs for {len(examples.labels)} labels"
                )
            if examples.inputs.shape[1:] != self.train.inputs.shape[1:]:
                raise DataError(
                    f"{split}: inputs have the shape {examples.inputs.shape[1:]}, and those of "
                    f"train {self.train.inputs.shape[1:]}"
                )
            _check_finite(examples.inputs, split)


def _check_finite(inputs: Inputs, name: str) -> None:
    if not isinstance(inputs, np.ndarray) or not np.issubdtype(inputs.dtype, np.floating):
        return
    finite = np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
    if not np.all(finite):
        raise DataError(
            f"{name}: the inputs of {np.sum(~finite)} examples are not finite, the first of them "
            f"example {np.argmin(finite)}: leave them out"
        )


def check_labels(labels: np.ndarray, num_classes: int, name: str) -> None:
    """Raises :class:`DataError` unless ``labels`` are integers in ``[0, num_classes)``."""
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{name}: labels must be integers, shape [n]; got {labels.dtype}")
    outside = (labels < 0) | (labels >= num_classes)
    if np.any(outside):
        first = int(np.argmax(outside))
        unlabelled = ", and often stands for no label" if labels[first] == -1 else ""
        raise DataError(
            f"{name}: label {labels[first]} of example {first} is not one of the "
            f"{num_classes} classes 0 to {num_classes - 1}{unlabelled}"
        )
