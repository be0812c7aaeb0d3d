"""What is trained on, and what is known of it."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from har_jax.data.corrections import Corrected
from har_jax.data.examples import Examples, Splits
from har_jax.data.found import Found
from har_jax.data.reading.encoded import EncodedImages
from har_jax.data.reading.texts import Vocabulary
from har_jax.system.interruption import checked


@dataclasses.dataclass(frozen=True)
class TrainingData(Splits):
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
      labels_from: The file that the labels are of, where they are not the source's own.
      meta: Examples beside the training set whose labels are known to be right, which the methods
        that need some learn from; None where there are none.
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
    meta: Examples | None = None
    labels_from: str | None = None
    corrected: Corrected | None = None

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def vocabulary_size(self) -> int | None:
        """The number of ids of words; None of images."""
        return None if self.vocabulary is None else len(self.vocabulary)

    @property
    def knows_wrong_labels(self) -> bool:
        """Whether it is known which labels are wrong: by made noise, or labels of a file."""
        return self.labels_from is not None or bool(self.noisy_classes)

    @property
    def flipped(self) -> Bool[np.ndarray, " n"]:
        """Which training labels are not what they were."""
        return self.train.labels != self.clean_labels

    @functools.cached_property
    def digest(self) -> str:
        """A checksum of all that is trained and evaluated on."""
        words = self.vocabulary and self.vocabulary.words
        sha = hashlib.sha256(json.dumps([self.class_names, self.group_names, words]).encode())
        for examples in self.splits.values():
            _update(sha, examples.inputs, examples.labels, examples.group_ids())
        if self.labels_from is not None:  # of which these are no function
            sha.update(np.ascontiguousarray(self.clean_labels).data)
        return sha.hexdigest()

    @functools.cached_property
    def test_digest(self) -> str:
        """A checksum of what is evaluated on, whatever is trained on."""
        test, sha = self.test, hashlib.sha256()
        sha.update(json.dumps([self.class_names, self.group_names]).encode())
        if test.texts is None:
            _update(sha, test.inputs, test.labels, test.group_ids())
        else:  # whose words have ids by what is trained on
            sha.update("\0".join(map(str, test.texts)).encode())
            _update(sha, test.labels, test.group_ids())
        return sha.hexdigest()

    def summary(self) -> dict[str, Any]:
        """The realized counts and flip rates, by class, for logs and reports.

        ``true_count`` and ``flip_rate`` are by what the labels were, ``train_count`` and
        ``mislabelled_count`` by what they are; the three that tell of wrong labels are None where
        it is not known which are. Where labels are of a file, ``labels_from`` is that,
        and ``mislabelled`` how many of all are not the source's own, as a share. Where a person has
        corrected some, ``corrected_by`` is the file, ``corrected`` how many labels it changed, and
        ``corrected_right`` how many of these are right now; None where that is not known.
        """
        of = lambda labels: np.bincount(labels, minlength=self.num_classes).tolist()
        true, flipped = of(self.clean_labels), of(self.clean_labels[self.flipped])
        rates = [
            round(part / whole, 4) if whole else None
            for part, whole in zip(flipped, true, strict=True)
        ]
        known = self.knows_wrong_labels
        of_file: dict[str, Any] = {}
        if self.labels_from is not None:
            share = round(float(np.mean(self.flipped)), 4)
            of_file |= {"labels_from": self.labels_from, "mislabelled": share}
        if self.corrected is not None:
            rows = self.corrected.rows
            of_file |= {
                "corrected_by": str(self.corrected.path),
                "corrected": len(rows),
                "corrected_right": int(np.sum(~self.flipped[rows])) if known else None,
            }
        return {
            "classes": list(self.class_names),
            **of_file,
            "splits": dict(self.found.splits),
            "found": dict(self.found.counts),
            "train_examples": len(self.train),
            "test_examples": len(self.test),
            "meta_examples": 0 if self.meta is None else len(self.meta),
            "train_count": of(self.train.labels),
            "test_count": of(self.test.labels),
            "true_count": true if known else None,
            "flip_rate": rates if known else None,
            "mislabelled_count": of(self.train.labels[self.flipped]) if known else None,
        }


def _update(sha: Any, *arrays: Any) -> None:
    for array in checked(arrays):
        if isinstance(array, EncodedImages):
            sha.update(array.checksum())
            continue
        array = np.ascontiguousarray(array)
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(array.data)
