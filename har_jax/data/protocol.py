"""The training set of an experiment: a source's, made noisy and imbalanced."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from har_jax import seeds
from har_jax.data.examples import Dataset, Examples, check_labels
from har_jax.data.imbalance import step_imbalance
from har_jax.data.noise import exchange_pairs
from har_jax.data.sources import SOURCES
from har_jax.data.splits import stratified_split


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """What is trained on, and what is known of it.

    Attributes:
      train: With the labels as trained on.
      clean_labels: ``[n]``, what the labels were; read by reports, never by training.
      test: What is evaluated on: the source's test set, never corrupted; or a part of the
        training set, with noisy labels.
      class_names: ``K`` names.
      noisy_classes: Those that the noise protocol touches.
      rare_classes: Those that the imbalance protocol makes rare.
    """

    train: Examples
    clean_labels: Int[np.ndarray, " n"]
    test: Examples
    class_names: tuple[str, ...]
    noisy_classes: tuple[int, ...]
    rare_classes: tuple[int, ...]

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def flipped(self) -> Bool[np.ndarray, " n"]:
        """Which training labels are not what they were."""
        return self.train.labels != self.clean_labels

    def summary(self) -> dict[str, Any]:
        """The realized counts and flip rates, by class, for logs and reports."""
        of = lambda labels, mask=None: np.bincount(
            labels if mask is None else labels[mask], minlength=self.num_classes
        ).tolist()
        return {
            "train_examples": len(self.train),
            "test_examples": len(self.test),
            "train_count": of(self.train.labels),
            "test_count": of(self.test.labels),
            "clean_count": of(self.clean_labels),
            "mislabelled_count": of(self.train.labels, self.flipped),
        }


def load(
    source: str,
    noise: Mapping[str, Any],
    imbalance: Mapping[str, Any],
    seed: int,
    *,
    validation_fraction: float | None = None,
) -> TrainingData:
    """Loads a source and corrupts its training set: noise first, then imbalance.

    Args:
      source: A name in :data:`har_jax.data.sources.SOURCES`.
      noise: ``{"kind": "none"}``, or ``{"kind": "pairs", "pairs": ..., "rate": ...}``.
      imbalance: ``{"kind": "none"}``, or ``{"kind": "step", "classes": ..., "ratio": ...}``.
      seed: All choices depend on it and on nothing else.
      validation_fraction: Where given, this share of the corrupted training set is taken
        out of it and evaluated on, in place of the test set.
    """
    dataset = SOURCES[source].load(seeds.derive(seed, "test split"))
    labels, noisy_classes = _add_noise(dataset, noise, seeds.derive(seed, "noise"))
    check_labels(labels, len(dataset.class_names), "noisy train")
    kept, rare_classes = _make_rare(labels, imbalance, seeds.derive(seed, "imbalance"))
    train = Examples(dataset.train.inputs[kept], labels[kept])
    clean_labels, test = dataset.train.labels[kept], dataset.test
    if validation_fraction is not None:
        size = round((1 - validation_fraction) * len(train))
        fitted, held_out = stratified_split(
            train.labels, size, seeds.derive(seed, "validation split")
        )
        test = train.take(held_out)
        train, clean_labels = train.take(fitted), clean_labels[fitted]
    return TrainingData(
        train=train,
        clean_labels=clean_labels,
        test=test,
        class_names=dataset.class_names,
        noisy_classes=noisy_classes,
        rare_classes=rare_classes,
    )


def _add_noise(dataset: Dataset, noise: Mapping[str, Any], seed: int):
    clean = dataset.train.labels
    if noise["kind"] == "none":
        return clean, ()
    pairs: Sequence[tuple[int, int]] = noise["pairs"]
    noisy = exchange_pairs(clean, pairs, noise["rate"], seed)
    return noisy, tuple(sorted(label for pair in pairs for label in pair))


def _make_rare(labels: np.ndarray, imbalance: Mapping[str, Any], seed: int):
    if imbalance["kind"] == "none":
        return np.arange(len(labels)), ()
    classes = imbalance["classes"]
    return step_imbalance(labels, classes, imbalance["ratio"], seed), tuple(sorted(classes))
