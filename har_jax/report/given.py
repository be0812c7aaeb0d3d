"""What methods were given by earlier stages: a noise rate, labels that are not the data's, and the
examples that they are trained on."""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from har_jax.data.protocol import TrainingData
from har_jax.estimation.cross_validation import Selection
from har_jax.system.files import damaged


def given(
    labels: Int[np.ndarray, " n"], noise_rate: float | None, data: TrainingData, meta: int = 0
) -> dict[str, Any]:
    """What there is to tell of a method, as ``given.json`` has it.

    Args:
      labels: What it was trained with, -1 of examples that it left out.
      noise_rate: What was estimated for it; None where nothing was.
      data: Of which it is known which labels are wrong where a protocol made them so.
      meta: How many examples it saw that are known to be labelled rightly.

    Returns:
      ``meta``, where that is not 0; ``noise_rate``; ``left_out`` and ``relabelled``, numbers of
      examples, with ``precision``, the share of these that are mislabelled, and ``recall``, the
      share of those that are mislabelled which are among them.
    """
    told: dict[str, Any] = {"meta": meta} if meta else {}
    if noise_rate is not None:
        told["noise_rate"] = noise_rate
    changed = labels != data.train.labels
    if np.any(changed):
        left_out = int(np.sum(labels < 0))
        told |= {"left_out": left_out, "relabelled": int(np.sum(changed)) - left_out}
        if np.any(data.flipped):
            hits = float(np.sum(changed & data.flipped))
            told |= {
                "precision": hits / int(np.sum(changed)),
                "recall": hits / int(np.sum(data.flipped)),
            }
    return told


def given_by_selection(selection: Selection, data: TrainingData) -> dict[str, Any]:
    """What there is to tell of the examples that were selected for a method.

    Args:
      selection: What became of the training examples.
      data: Of which it is known which labels are wrong where a protocol made them so.

    Returns:
      ``selection``: its ``noise_rate``, ``rounds``, those that selected anything, and, of the
      examples that are ``selected``, ``candidates`` and ``removed``, the ``count``; where the noise
      is ours, ``mislabelled``, the share of these that is; and, where some classes are rare,
      ``rare``, how many are of these, ``rare_mislabelled``, the share of those that is, and
      ``of_clean_rare``, the share of all clean and rare examples that is among them. Shares of
      nothing are None.
    """
    is_rare = np.isin(data.train.labels, data.rare_classes)
    share = lambda part, whole: float(np.sum(part & whole) / np.sum(whole)) if whole.any() else None

    def told(members: Bool[np.ndarray, " n"]) -> dict[str, Any]:
        found: dict[str, Any] = {"count": int(np.sum(members))}
        if np.any(data.flipped):
            found["mislabelled"] = share(data.flipped, members)
            if np.any(is_rare):
                found |= {
                    "rare": int(np.sum(is_rare & members)),
                    "rare_mislabelled": share(data.flipped, is_rare & members),
                    "of_clean_rare": share(members, is_rare & ~data.flipped),
                }
        return found

    return {
        "selection": {
            "noise_rate": selection.noise_rate,
            "rounds": int(selection.round.max()) + 1,
            "selected": told(selection.round >= 0),
            "candidates": told((selection.round < 0) & ~selection.removed),
            "removed": told(selection.removed),
        }
    }


def read_given(folder: pathlib.Path) -> dict[str, Any]:
    """What a method's folder tells; nothing where that is of before it was told.

    Raises:
      OSError: if it is damaged.
    """
    path = folder / "given.json"
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise damaged(path, error) from error


def lines(every: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """In words, by method."""
    for method, told in every.items():
        if "noise_rate" in told:
            yield f"{method} was given a noise rate of {100 * told['noise_rate']:.1f}%, estimated"
        if "meta" in told:
            yield (
                f"{method} learned from {told['meta']} examples that are known to be labelled "
                "rightly, beside the training set"
            )
        if "left_out" in told:
            numbers = (("left_out", "left out"), ("relabelled", "relabelled"))
            shown = " and ".join(f"{told[key]} {word}" for key, word in numbers if told[key])
            known = ""
            if "precision" in told:
                known = (
                    f": {100 * told['precision']:.0f}% of these are mislabelled, and "
                    f"{100 * told['recall']:.0f}% of all that are mislabelled are among them"
                )
            yield f"{method}: {shown} of the training examples{known}"
        if "selection" in told:
            yield from _of_selection(method, told["selection"])


def _of_selection(method: str, told: Mapping[str, Any]) -> Iterator[str]:
    selected, left, removed = (told[part] for part in ("selected", "candidates", "removed"))
    yield (
        f"{method}: {selected['count']} training examples selected, {left['count']} left as "
        f"candidates, {removed['count']} removed, at a noise rate of "
        f"{100 * told['noise_rate']:.1f}%, estimated"
    )
    percent = lambda share: f"{100 * share:.0f}%"
    wrong = {"selected": selected, "candidates": left, "removed": removed}
    shares = [
        f"{percent(part['mislabelled'])} of the {name}"
        for name, part in wrong.items()
        if part.get("mislabelled") is not None
    ]
    if shares:
        yield f"{method}: mislabelled are {', '.join(shares)}"
    if selected.get("rare_mislabelled") is not None:
        yield (
            f"{method}: of the selected examples of rare classes "
            f"{percent(selected['rare_mislabelled'])} are mislabelled"
        )
    if removed.get("of_clean_rare") is not None:
        yield (
            f"{method}: of the rightly labelled examples of rare classes "
            f"{percent(selected['of_clean_rare'])} are selected and "
            f"{percent(removed['of_clean_rare'])} removed"
        )
