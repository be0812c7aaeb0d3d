"""Methods side by side, a row each, where they are more than the table of groups has room for."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from har_jax.report.long_tail import shots_of

FEW = 4  # methods that have a column each wherever groups are told of, and nothing beside


@dataclasses.dataclass(frozen=True)
class Column:
    """What is told of every method.

    Attributes:
      head: What it is.
      cells: One for each method, in the order of the config.
      best: The rows of those that do best, as far as can be seen in the cells.
    """

    head: str
    cells: Sequence[str]
    best: Collection[int] = ()


def are_many(methods: Collection[str]) -> bool:
    """Whether they are compared in a table of their own."""
    return len(methods) > FEW


def compared(results: Mapping[str, Any]) -> list[Column]:
    """Names, mean accuracies by part of the groups, gains over the first method, strengths.

    Accuracies are in percent, gains in points.
    """
    means, parts = results["means"], parts_of(results)
    accuracies = {part: [mean[part]["test_accuracy"] for mean in means.values()] for part in parts}
    strengths = [mean["all"]["strength"] for mean in means.values()]
    regularized = [Column("strength", [number(value or None) for value in strengths])]
    return [
        Column("method", list(means)),
        *(_shares(part, shares) for part, shares in accuracies.items()),
        *(Column(f"gain {part}", _gains(shares)) for part, shares in accuracies.items()),
        *(regularized if any(strengths) else []),
    ]


def on_other_tests(results: Mapping[str, Any]) -> list[Column]:
    """The accuracies on each further test set, in percent."""
    return [
        _shares(f"{name} {head}", [of[key] for of in methods.values()])
        for name, methods in results["other_tests"].items()
        for head, key in (("top-1", "accuracy"), ("top-5", "top5"))
    ]


def by_shot(results: Mapping[str, Any]) -> list[Column]:
    """Names, and mean accuracies over the classes of each shot, over all, and over examples.

    Nothing where there is no long tail, see :func:`har_jax.report.long_tail.shots_of`.
    """
    if not (shots := shots_of(results)):
        return []
    means, counts = results["class_means"], results["shots"]
    heads = {shot: f"{shot} ({counts[shot]['classes']})" for shot in shots}
    heads |= {"all": "mean per class", "examples": "all examples"}
    return [
        Column("method", list(means)),
        *(_shares(head, [mean[key] for mean in means.values()]) for key, head in heads.items()),
    ]


def clean_labels_seen(results: Mapping[str, Any]) -> list[Column]:
    """How many examples known to be labelled rightly each learned from; nothing where none did."""
    counts = [results["given"].get(method, {}).get("meta") for method in results["means"]]
    if not any(counts):
        return []
    return [Column("clean labels seen", [str(count or 0) for count in counts])]


def parts_of(results: Mapping[str, Any]) -> list[str]:
    """The parts of the groups that there are; of clean groups only beside others."""
    corrupted = any(group["noisy"] or group["mislabelled"] for group in results["groups"])
    return [
        part
        for part, mean in next(iter(results["means"].values())).items()
        if mean["strength"] is not None and (part != "clean" or corrupted)
    ]


def percent(share: float | None) -> str:
    """A share as a cell."""
    return "-" if share is None else f"{100 * share:.1f}"


def number(value: float | None) -> str:
    """A strength, or what makes it up, as a cell."""
    return "-" if value is None else f"{value:.3f}"


def _shares(head: str, shares: Sequence[float | None]) -> Column:
    cells = [percent(share) for share in shares]
    known = [cell for cell, share in zip(cells, shares, strict=True) if share is not None]
    best = max(known, key=float, default=None)
    return Column(head, cells, [row for row, cell in enumerate(cells) if cell == best])


def _gains(shares: Sequence[float | None]) -> list[str]:
    """Of all but the first, over which they are."""
    first, *others = shares
    return ["-", *(_points(share, first) for share in others)]


def _points(now: float | None, before: float | None) -> str:
    return "-" if now is None or before is None else f"{100 * (now - before):+z.1f}"
