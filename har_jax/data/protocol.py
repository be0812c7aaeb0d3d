"""The training set of an experiment: a source's, made smaller, noisy and imbalanced."""

import dataclasses
import functools
import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from har_jax.data.apart import Parts
from har_jax.data.classes import class_ids
from har_jax.data.encoded import EncodedImages
from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.found import Found
from har_jax.data.imbalance import exponential_imbalance, step_imbalance
from har_jax.data.labels import warn_of_near_names
from har_jax.data.leaks import OnLeak, mend_leaks
from har_jax.data.noise import exchange_within_groups, flip_classes
from har_jax.data.sources import Kind, Place, open_source
from har_jax.data.splits import stratified_split
from har_jax.data.texts import Vocabulary, are_texts, warn_of_unknown_words
from har_jax.system import seeds
from har_jax.system.interruption import checked
from har_jax.system.terminal import some

_FEW_CLASSES = 20  # so many may have an example each


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """What is trained on, and what is known of it.

    Attributes:
      train: With the labels as trained on.
      clean_labels: ``[n]``, what the labels were; read by reports, never by training.
      test: What is evaluated on: the source's test set, never corrupted; or a part of the
        training set, with noisy labels.
      class_names: ``K`` names.
      group_names: ``G`` names: what is regularized alike; the classes, if the source says nothing.
      noisy_classes: Those that the noise protocol touches.
      rare_classes: Those that the imbalance protocol makes rare.
      others: Further test sets, by name, never corrupted.
      vocabulary: Of texts, whose inputs are ids of it; None of images.
      found: Where all that comes from, and what was left out of it.
    """

    train: Examples
    clean_labels: Int[np.ndarray, " n"]
    test: Examples
    class_names: tuple[str, ...]
    group_names: tuple[str, ...]
    noisy_classes: tuple[int, ...]
    rare_classes: tuple[int, ...]
    others: Mapping[str, Examples] = dataclasses.field(default_factory=dict)
    vocabulary: Vocabulary | None = None
    found: Found = dataclasses.field(default_factory=Found)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def vocabulary_size(self) -> int | None:
        """The number of ids of words; None of images."""
        return None if self.vocabulary is None else len(self.vocabulary)

    @property
    def flipped(self) -> Bool[np.ndarray, " n"]:
        """Which training labels are not what they were."""
        return self.train.labels != self.clean_labels

    @functools.cached_property
    def digest(self) -> str:
        """A checksum of all that is trained and evaluated on."""
        words = self.vocabulary and self.vocabulary.words
        sha = hashlib.sha256(json.dumps([self.class_names, self.group_names, words]).encode())
        for examples in (self.train, self.test, *self.others.values()):
            for array in checked((examples.inputs, examples.labels, examples.group_ids())):
                if isinstance(array, EncodedImages):
                    sha.update(array.checksum())
                    continue
                array = np.ascontiguousarray(array)
                sha.update(f"{array.dtype.str}{array.shape}".encode())
                sha.update(array.data)
        return sha.hexdigest()

    def summary(self) -> dict[str, Any]:
        """The realized counts and flip rates, by class, for logs and reports.

        ``true_count`` and ``flip_rate`` are by what the labels were, ``train_count`` and
        ``mislabelled_count`` by what they are.
        """
        of = lambda labels: np.bincount(labels, minlength=self.num_classes).tolist()
        true, flipped = of(self.clean_labels), of(self.clean_labels[self.flipped])
        return {
            "classes": list(self.class_names),
            "splits": dict(self.found.splits),
            "found": dict(self.found.counts),
            "train_examples": len(self.train),
            "test_examples": len(self.test),
            "train_count": of(self.train.labels),
            "test_count": of(self.test.labels),
            "true_count": true,
            "flip_rate": [
                round(part / whole, 4) if whole else None
                for part, whole in zip(flipped, true, strict=True)
            ],
            "mislabelled_count": of(self.train.labels[self.flipped]),
        }


def load(
    source: str,
    noise: Mapping[str, Any],
    imbalance: Mapping[str, Any],
    seed: int,
    *,
    place: Place | None = None,
    train_size: int | None = None,
    validation_fraction: float | None = None,
    keep_groups_whole: bool = False,
    on_leak: OnLeak = "stop",
    reads: Kind | None = None,
) -> TrainingData:
    """Loads a source and corrupts its training set: noise first, then imbalance.

    Classes are given by id or by name.

    Args:
      source: A name that :func:`har_jax.data.sources.open_source` takes.
      noise: ``{"kind": "none"}``; ``{"kind": "groups", "groups": ..., "rate": ...}``, as
        :func:`har_jax.data.exchange_within_groups` takes them; ``{"kind": "symmetric",
        "rate": ...}``, which is one group of all classes; or ``{"kind": "asymmetric", "flips":
        ...}``, as :func:`har_jax.data.flip_classes` takes them.
      imbalance: ``{"kind": "none"}``; ``{"kind": "step", "classes": ..., "ratio": ...}``; or
        ``{"kind": "exponential", "ratio": ...}``, whose latter half of classes counts as rare.
      seed: All choices depend on it and on nothing else.
      place: Where the source's files are, for sources that have files, and how they are read.
      train_size: Where given, this many examples of the training set are kept, before noise
        and imbalance, with the classes' shares as they are.
      validation_fraction: Where given, this share of the corrupted training set is taken
        out of it and evaluated on, in place of the test set.
      keep_groups_whole: Whether what is evaluated on must share no group with what is trained on.
      on_leak: What to do with training examples that equal one of the test set, by content.
      reads: What the network takes; None for what there is.

    Raises:
      DataError: if the source is not there, has what the network does not read, or a class or
        a size is not of it; before anything is loaded, where that can be known. If training
        examples are tested on, or groups that are to be kept whole are torn by the source.

    Warns:
      UserWarning: of names that are nearly the same, classes without examples, equal examples with
        different labels, and texts whose words are mostly unknown.
    """
    found = open_source(source, place)
    if reads not in (None, found.kind):
        raise DataError(
            f"config.data.source={source!r} has {found.kind}, and the network of config.model.name "
            f"takes {reads}"
        )
    corruption = _corruption(source, found.class_names, noise, imbalance)
    warn_of_near_names(found.class_names, "classes")
    dataset = mend_leaks(found.load(seeds.derive(seed, "test split")), on_leak)
    _check_groups(dataset, keep_groups_whole)
    num_classes = len(dataset.class_names)

    train = dataset.train
    _warn_of_classes(dataset)
    if train_size is not None and train_size > len(train):
        raise DataError(
            f"config.data.train_size={train_size} is more than the {len(train)} training examples "
            f"of {source}"
        )
    if train_size is not None and train_size < len(train):
        subset, _ = stratified_split(train.labels, train_size, seeds.derive(seed, "subset"))
        train = train.take(subset)
    clean = train.labels
    try:
        noisy = corruption.mislabel(clean, seeds.derive(seed, "noise"))
        kept = _make_rare(noisy, num_classes, corruption, seeds.derive(seed, "imbalance"))
    except ValueError as error:  # too few classes or examples for what the config asks for
        raise DataError(f"{source}, {len(clean)} training examples: {error}") from error
    train, clean = dataclasses.replace(train, labels=noisy).take(kept), clean[kept]
    test, origin = dataset.test, dataset.found
    if validation_fraction is not None:
        size = round((1 - validation_fraction) * len(train))
        if not 0 < size < len(train):
            raise DataError(
                f"config.data.validation_fraction={validation_fraction} of {len(train)} training "
                "examples leaves none to train on, or none to evaluate on"
            )
        fitted, held_out = Parts(keep_groups_whole).split(
            train, size, seeds.derive(seed, "validation split")
        )
        test = train.take(held_out)
        train, clean = train.take(fitted), clean[fitted]
        part = f"{validation_fraction:g} of the training set, with its labels"
        origin = dataclasses.replace(origin, splits={**origin.splits, "test": part})
    others, vocabulary = dict(dataset.others), None
    if are_texts(train.inputs):
        encoding = (place or Place()).encoding
        vocabulary = Vocabulary.of(train.inputs, encoding.vocabulary_size, encoding.words)
        encode = functools.partial(_encoded, vocabulary=vocabulary, length=encoding.length)
        train, test = encode(train), encode(test)
        others = {name: encode(part) for name, part in others.items()}
        warn_of_unknown_words(np.asarray(test.inputs), encoding.words)
    return TrainingData(
        train=train,
        clean_labels=clean,
        test=test,
        class_names=dataset.class_names,
        group_names=dataset.group_names or dataset.class_names,
        noisy_classes=corruption.noisy_classes,
        rare_classes=corruption.rare,
        others=others,
        vocabulary=vocabulary,
        found=origin,
    )


def _warn_of_classes(dataset: Dataset) -> None:
    """Warns of classes that cannot be learned.

    Raises:
      DataError: if none of the classes that are tested on is trained on.
    """
    names, train = dataset.class_names, set(dataset.train.labels.tolist())
    named = lambda ids: some([names[label] for label in sorted(ids)])
    if not train & (tested := set(dataset.test.labels.tolist())):
        raise DataError(
            f"no class is both trained and tested on: trained on are {named(train)}, tested on "
            f"{named(tested)}: give the splits the same classes, or see whether "
            "these are splits themselves, one folder too high"
        )
    if absent := set(range(len(names))) - train:
        warnings.warn(
            f"no training example is of class {named(absent)}: none will be predicted so; take "
            "them out, or see whether their names are misspelt",
            stacklevel=3,
        )
    if len(names) > max(_FEW_CLASSES, len(dataset.train) / 2):
        warnings.warn(
            f"there are {len(names)} classes for {len(dataset.train)} training examples, such as "
            f"{names[0]!r} and {names[-1]!r}: are these labels?",
            stacklevel=3,
        )


def _check_groups(dataset: Dataset, keep_whole: bool) -> None:
    """Looks at the groups that a source names."""
    if dataset.train.groups is None:
        if keep_whole:
            raise DataError(
                "config.data.keep_groups_whole=True, and there are no groups: name them in a "
                "column group"
            )
        return
    assert dataset.group_names is not None
    warn_of_near_names(dataset.group_names, "groups")
    for split, examples in {"test": dataset.test, **dataset.others}.items():
        torn = np.intersect1d(dataset.train.groups, examples.group_ids())
        if keep_whole and len(torn):
            names = some([dataset.group_names[group] for group in torn])
            raise DataError(
                f"config.data.keep_groups_whole=True, and {len(torn)} groups are in train and in "
                f"{split}, as the source splits them: {names}: mend its splits, or remove them "
                "to have some made"
            )


def _encoded(examples: Examples, vocabulary: Vocabulary, length: int) -> Examples:
    texts = examples.inputs[:]
    return dataclasses.replace(examples, inputs=vocabulary.encode(texts, length), texts=texts)


@dataclasses.dataclass(frozen=True)
class _Corruption:
    """What is done to a source's training set, with classes as ids.

    Attributes:
      groups: Between which classes labels are exchanged.
      rate: The share of every one of these classes that is mislabelled.
      flips: From which class to which other, and at what rate, where that differs.
      imbalance: ``"none"``, ``"step"`` or ``"exponential"``.
      rare: The classes that the imbalance makes rare.
      ratio: Of the imbalance.
    """

    groups: tuple[tuple[int, ...], ...]
    rate: float
    flips: tuple[tuple[int, int, float], ...]
    imbalance: str
    rare: tuple[int, ...]
    ratio: float

    @property
    def noisy_classes(self) -> tuple[int, ...]:
        """Those that labels are moved from, or to."""
        exchanged = {label for group in self.groups for label in group}
        flipped = {label for *pair, _ in self.flips for label in pair}
        return tuple(sorted(exchanged | flipped))

    def mislabel(self, labels: Int[np.ndarray, " n"], seed: int) -> Int[np.ndarray, " n"]:
        if self.flips:
            return flip_classes(labels, self.flips, seed)
        return exchange_within_groups(labels, self.groups, self.rate, seed)


def _corruption(
    source: str,
    class_names: Sequence[str],
    noise: Mapping[str, Any],
    imbalance: Mapping[str, Any],
) -> _Corruption:
    everything = tuple(range(len(class_names)))
    ids = functools.partial(class_ids, class_names=class_names, source=source)
    groups: tuple[tuple[int, ...], ...] = ()
    flips: tuple[tuple[int, int, float], ...] = ()
    if noise["kind"] == "symmetric":
        groups = (everything,)
    elif noise["kind"] == "groups":
        groups = tuple(ids(group, key="data.noise.groups") for group in noise["groups"])
        ids([label for group in groups for label in group], key="data.noise.groups")
    elif noise["kind"] == "asymmetric":
        flips = tuple(
            (*ids((label, other), key="data.noise.flips"), rate)
            for label, other, rate in noise["flips"]
        )
        try:
            flip_classes(np.zeros(0, np.int32), flips, seed=0)  # of what is named by id and by name
        except ValueError as error:
            raise DataError(f"config.data.noise.flips={noise['flips']}: {error}") from error
    rare: tuple[int, ...] = ()
    if imbalance["kind"] == "step":
        rare = ids(imbalance["classes"], key="data.imbalance.classes")
        if len(rare) == len(class_names):
            raise DataError(
                f"config.data.imbalance.classes names all {len(rare)} classes of {source}: leave "
                "some frequent"
            )
    elif imbalance["kind"] == "exponential":
        rare = everything[(len(everything) + 1) // 2 :]
    return _Corruption(
        groups=groups,
        rate=noise["rate"] if groups else 0.0,
        flips=flips,
        imbalance=imbalance["kind"],
        rare=tuple(sorted(rare)),
        ratio=imbalance["ratio"] if imbalance["kind"] != "none" else 1.0,
    )


def _make_rare(
    labels: np.ndarray, num_classes: int, corruption: _Corruption, seed: int
) -> Int[np.ndarray, " kept"]:
    if corruption.imbalance == "step":
        return step_imbalance(labels, corruption.rare, corruption.ratio, seed)
    if corruption.imbalance == "exponential":
        return exponential_imbalance(labels, num_classes, corruption.ratio, seed)
    return np.arange(len(labels))
