"""The training set of an experiment: a source's, made smaller, noisy and imbalanced."""

import dataclasses
import functools
import warnings

import numpy as np

from har_jax.data.apart import Parts
from har_jax.data.classes import Classes
from har_jax.data.corrections import Corrections, corrected
from har_jax.data.corruption import Imbalance, Noise
from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.label_files import LabelFile
from har_jax.data.labels import warn_of_near_names
from har_jax.data.leaks import OnLeak, mend_leaks
from har_jax.data.meta import set_apart
from har_jax.data.reading.texts import Vocabulary, are_texts, warn_of_unknown_words
from har_jax.data.relabelling import relabelled
from har_jax.data.sources.source import Kind, Source
from har_jax.data.splits import stratified_split
from har_jax.data.training_data import TrainingData
from har_jax.system import seeds
from har_jax.system.terminal import some

_FEW_CLASSES = 20  # so many may have an example each


def load(
    source: Source,
    noise: Noise | None,
    imbalance: Imbalance | None,
    seed: int,
    *,
    train_size: int | None = None,
    meta_size: int | None = None,
    validation_fraction: float | None = None,
    keep_groups_whole: bool = False,
    on_leak: OnLeak = "stop",
    reads: Kind | None = None,
    labels: LabelFile | None = None,
    corrections: Corrections | None = None,
) -> TrainingData:
    """Loads a source and corrupts its training set: noise first, then imbalance.

    Classes are given by id or by name.

    Args:
      source: As one of :mod:`har_jax.data.sources` gives it.
      noise: As one of :mod:`har_jax.data.corruption`; None for labels as they are.
      imbalance: As one of :mod:`har_jax.data.corruption`; None for classes as they are.
      seed: All choices depend on it and on nothing else.
      train_size: Where given, this many examples of the training set are kept, before noise
        and imbalance, with the classes' shares as they are.
      meta_size: Where given, this many of these are taken out before noise and imbalance, as many
        of each class: their labels are known to be right, as far as the source's are.
      validation_fraction: Where given, this share of the corrupted training set is taken
        out of it and evaluated on, in place of the test set.
      keep_groups_whole: Whether what is evaluated on must share no group with what is trained on.
      on_leak: What to do with training examples that equal one of the test set, by content.
      reads: What the network takes; None for what there is.
      labels: Where given, these are trained on, in place of the training set's own, which count as
        true, as they do where noise is made. They are joined before anything is left out.
      corrections: Where given, some labels that are trained on are changed, after all else. They
        count as true where nothing else is known.

    Raises:
      DataError: if the source is not there, has what the network does not read, or a class or
        a size is not of it; before anything is loaded, where that can be known. If training
        examples are tested on, or groups that are to be kept whole are torn by the source.

    Warns:
      UserWarning: if ``meta_size`` takes labels for right that no noise was made of; of names that
        are nearly the same, classes without examples, equal examples with different labels, and
        texts whose words are mostly unknown.
    """
    if reads not in (None, source.kind):
        raise DataError(
            f"config.data.source={source.name!r} has {source.kind}, and the network of "
            f"config.model.name takes {reads}"
        )
    classes = Classes(source.class_names, source.name)
    mislabelling = None if noise is None else noise.of(classes)
    thinning = None if imbalance is None else imbalance.of(classes)
    given = None if labels is None else labels.of(classes)
    wanted = None if corrections is None else corrections.of(classes)
    warn_of_near_names(source.class_names, "classes")
    loaded = source.load(seeds.derive(seed, "test split"))
    if not isinstance(loaded, Dataset):
        raise DataError(
            f"{source.name} loads a {type(loaded).__name__}: a har_jax.data.Dataset is needed"
        )
    if labels is not None and given is not None:
        loaded = relabelled(loaded, given, labels, source.name)
    dataset = mend_leaks(loaded, on_leak)
    if dataset.class_names != source.class_names:
        raise DataError(
            f"{source.name} announces the classes {some(source.class_names)}, and loads "
            f"{some(dataset.class_names)}: give both the same names"
        )
    _check_groups(dataset, keep_groups_whole)

    train = dataset.train
    _warn_of_classes(dataset)
    if train_size is not None and train_size > len(train):
        raise DataError(
            f"config.data.train_size={train_size} is more than the {len(train)} training examples "
            f"of {source.name}"
        )
    if train_size is not None and train_size < len(train):
        subset, _ = stratified_split(train.labels, train_size, seeds.derive(seed, "subset"))
        train = train.take(subset)
    train, meta, found = set_apart(
        dataset,
        train,
        meta_size,
        seeds.derive(seed, "meta"),
        labels_are_right=noise is not None or labels is not None,
    )
    clean = train.known_labels()
    try:
        noisy, kept = train.labels, np.arange(len(clean))
        if mislabelling is not None:
            noisy = mislabelling.apply(noisy, seeds.derive(seed, "noise"))
        if thinning is not None:
            kept = thinning.keep(noisy, seeds.derive(seed, "imbalance"))
    except ValueError as error:  # too few classes or examples for what the config asks for
        raise DataError(f"{source.name}, {len(clean)} training examples: {error}") from error
    train = dataclasses.replace(train, labels=noisy, true_labels=None).take(kept)
    clean = clean[kept]
    found = found.counted({"left out: by config.data.imbalance": len(noisy) - len(kept)})
    test, origin = dataset.test, found
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
    mended = None
    if corrections is not None and wanted is not None:
        every = list(loaded.splits.values())
        train, mended = corrected(train, every, corrections, wanted, dataset.class_names)
        if noise is None and labels is None:
            clean = train.labels
        elsewhere = f"corrections of {mended.path.name} of examples that are not trained on"
        origin = origin.counted({elsewhere: mended.elsewhere})
    others, vocabulary = dict(dataset.others), None
    if are_texts(train.inputs):
        encoding = source.encoding
        vocabulary = Vocabulary.of(train.inputs, encoding.vocabulary_size, encoding.words)
        encode = functools.partial(_encoded, vocabulary=vocabulary, length=encoding.length)
        train, test = encode(train), encode(test)
        others = {name: encode(part) for name, part in others.items()}
        meta = None if meta is None else encode(meta)
        warn_of_unknown_words(np.asarray(test.inputs), encoding.words)
    noisy_classes = () if mislabelling is None else mislabelling.classes
    if labels is not None:
        own = origin.splits.get("train", "the training set")
        told = {"train": f"{own}, with labels of {labels.path.name}"}
        origin = dataclasses.replace(origin, splits={**origin.splits, **told})
        moved = train.labels != clean
        noisy_classes = tuple(np.union1d(train.labels[moved], clean[moved]).tolist())
    return TrainingData(
        train=train,
        clean_labels=clean,
        test=test,
        class_names=dataset.class_names,
        group_names=dataset.group_names or dataset.class_names,
        noisy_classes=noisy_classes,
        rare_classes=() if thinning is None else thinning.rare,
        others=others,
        meta=meta,
        vocabulary=vocabulary,
        found=origin,
        labels_from=None if labels is None else str(labels.path),
        corrected=mended,
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
    if dataset.meta is not None and (without := train - set(dataset.meta.labels.tolist())):
        warnings.warn(
            f"no example of meta is of class {named(without)}: methods that learn from its labels "
            "are told nothing of these; add some",
            stacklevel=3,
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
    for split, examples in dataset.tested.items():
        for name, part in dataset.learned.items() if keep_whole else ():
            if len(torn := np.intersect1d(part.group_ids(), examples.group_ids())):
                names = some([dataset.group_names[group] for group in torn])
                raise DataError(
                    f"config.data.keep_groups_whole=True, and {len(torn)} groups are in {name} and "
                    f"in {split}, as the source splits them: {names}: mend its splits, or, of "
                    "train and test, remove them to have some made"
                )


def _encoded(examples: Examples, vocabulary: Vocabulary, length: int) -> Examples:
    texts = examples.inputs[:]
    return dataclasses.replace(examples, inputs=vocabulary.encode(texts, length), texts=texts)
