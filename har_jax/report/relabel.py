"""Suggested corrections of labels, ``relabel.csv``, and how often such labels are wrong."""

import csv
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from har_jax.data.corrections import DIGEST, GIVEN, ID, SUGGESTION, digests_of, names_of
from har_jax.data.training_data import TrainingData
from har_jax.estimation.estimate import reason_to_doubt
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.estimation.suspicion import contradicted, most_suspicious, precision_at, unlearned
from har_jax.system.terminal import some

NAME = "relabel.csv"
COUNTS = (10, 50, 100)
"""Of how many of the most suspicious labels it is told how many are wrong."""

_LONGEST = 200  # characters of a text


def suggestions(said: OutOfSample, data: TrainingData) -> str:
    """A table of the labels that are contradicted out of sample, the most suspicious first.

    ``id`` as :func:`har_jax.data.relabelling.ids_of` has it. Where examples have no ids, or none
    that are their own, it is the place in the training set, and ``digest`` is a checksum of the
    example, by which :func:`har_jax.data.corrections.corrected` knows it again. Then
    ``given_label``, ``suggestion``, the ``probability`` of this, ``held_out_loss`` of the given
    label in nats, and, of texts, the beginning of the ``text``, for people.

    Args:
      said: Of some or all of the training examples.
      data: Theirs.

    Returns:
      The text of a CSV file.
    """
    train, names = data.train, names_of(data.train)
    rows = most_suspicious(said, train.labels)
    index = said.index[rows].tolist()
    columns = {
        ID: index if names is None else [names[row] for row in index],
        GIVEN: [data.class_names[label] for label in train.labels[index]],
        SUGGESTION: [data.class_names[label] for label in said.prediction[rows]],
        "probability": _decimals(said.confidence, rows),
        "held_out_loss": _decimals(said.loss, rows),
    }
    if names is None:
        columns[DIGEST] = digests_of(train, index)
    if train.texts is not None:
        columns["text"] = [" ".join(str(train.texts[row]).split())[:_LONGEST] for row in index]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode("utf-8", "replace").decode()  # without halves of surrogates


def _decimals(values: np.ndarray | None, rows: np.ndarray) -> list[str]:
    """So many that the table can be read; empty where nothing is known."""
    return [""] * len(rows) if values is None else [f"{value:.4f}" for value in values[rows]]


def summary_of_suspicion(said: OutOfSample | None, data: TrainingData) -> dict[str, Any] | None:
    """Numbers for ``results.json``; None where nothing is said of examples out of sample.

    ``doubt``, why what is said tells nothing of noise, in words, or None; ``unlearned``, the names
    of classes of which that goes, see :func:`har_jax.estimation.suspicion.unlearned`;
    ``examples`` of which something is said, and how many labels of these are ``contradicted``;
    where it is known which labels are wrong, ``mislabelled``, the share of these among all that
    something is said of, and ``precision``, that among the first 10, 50 and 100 of the most
    suspicious, by their number; else None.
    """
    if said is None:
        return None
    read = said.index[said.prediction >= 0]
    ranked = said.index[most_suspicious(said, data.train.labels)]
    known, wrong = data.knows_wrong_labels, data.flipped
    return {
        "doubt": reason_to_doubt(said, data.train.labels),
        "unlearned": [data.class_names[label] for label in unlearned(said, data.train.labels)],
        "examples": len(read),
        "contradicted": int(np.sum(contradicted(said, data.train.labels))),
        "mislabelled": float(np.mean(wrong[read])) if known and len(read) else None,
        "precision": {str(k): share for k, share in precision_at(COUNTS, ranked, wrong).items()}
        if known
        else None,
    }


def told(results: Mapping[str, Any]) -> list[str]:
    """How many labels are contradicted, and how many of the first of these are wrong."""
    if (found := results["suspicion"]) is None:
        return []
    lines = [found["doubt"]] if found["doubt"] else []
    if found["unlearned"] and not lines:
        lines.append(
            f"of {some(found['unlearned'])} models know nothing, which predict this no more often "
            "where it is the label than elsewhere: labels that look wrong there mean little"
        )
    lines.append(
        f"{found['contradicted']} of {found['examples']} labels are contradicted by models that "
        "did not see them"
    )
    if precision := found["precision"]:
        of = ", ".join(f"{100 * share:.0f}% of the first {k}" for k, share in precision.items())
        lines.append(
            f"of the most suspicious labels {of} are wrong, and "
            f"{100 * found['mislabelled']:.1f}% of all"
        )
    return lines
