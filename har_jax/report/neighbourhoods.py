"""What was estimated of neighbourhoods: their noise, and whether it differs by more than chance."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from har_jax.data.protocol import TrainingData
from har_jax.estimation.estimate import Estimated
from har_jax.report.selection import MOST
from har_jax.strength import adaptation


def described(
    config: Mapping[str, Any], data: TrainingData, estimated: Estimated
) -> dict[str, Any]:
    """Numbers for ``results.json``.

    ``groups`` and ``noise`` as the config names them; ``temperatures`` of each fold's
    probabilities; ``adaptation``, as :class:`har_jax.strength.Adaptation` has it, and whether
    it ``is_needed``; ``recovered``, where wrong labels are known, Spearman's rank correlation of I
    with the share of them, both as means over a class, ``by_label`` and ``by_true_class``; and
    ``rows``, one for each neighbourhood that has a name and an example, unless these are the groups
    of the table.
    """
    s, flipped = estimated.statistics, data.flipped
    found = adaptation(s, int(np.sum(~np.isnan(estimated.shown))))
    mislabelled = np.zeros(len(s.groups))
    np.add.at(mislabelled, estimated.group, flipped)
    plain = lambda value: None if np.isnan(value) else float(value)
    return {
        "groups": config["estimate.groups"],
        "noise": config["estimate.noise"],
        "temperatures": dict(estimated.temperatures),
        "adaptation": {**found._asdict(), "is_needed": found.is_needed},
        "recovered": {
            "by_label": recovered(estimated.noise, flipped, data.train.labels),
            "by_true_class": recovered(estimated.noise, flipped, data.clean_labels),
        }
        if np.any(flipped)
        else None,
        "rows": [
            {
                "name": name,
                "n": float(s.count[k]),
                "mislabelled": int(mislabelled[k]),
                "validation_n": float(s.validation_count[k]),
                "observed": plain(s.observed_error[k]),
                "standard_error": plain(s.standard_error[k]),
                "noise": float(s.error[k]),
                "frequency": float(s.frequency[k]),
                "tau": float(s.tau[k]),
            }
            for k, name in enumerate(estimated.names)
            if config["estimate.groups"] != "given" and s.count[k] > 0
        ],
    }


def table_of(results: Mapping[str, Any]) -> tuple[list[str], list[list[str]], int] | None:
    """Neighbourhoods that are no groups of the data: a head, rows, and how many of these.

    Those of the greatest tau first, and no more than can be looked at; None where there are none.
    """
    found = results["neighbourhoods"]
    if found is None or not found["rows"]:
        return None
    flipped = found["recovered"] is not None
    rows = sorted(found["rows"], key=lambda row: -row["tau"])[:MOST]
    head = ["neighbourhood", "n", *(["mislabelled"] if flipped else []), "noise", "I", "tau"]
    cells = [
        [
            row["name"],
            f"{row['n']:.0f}",
            *([str(row["mislabelled"])] if flipped else []),
            "none" if row["observed"] is None else _percent(row["observed"], row["standard_error"]),
            f"{100 * row['noise']:.1f}",
            f"{row['tau']:.3f}",
        ]
        for row in rows
    ]
    return head, cells, len(cells)


def _percent(share: float, standard_error: float) -> str:
    return f"{100 * share:.1f} \N{PLUS-MINUS SIGN} {100 * standard_error:.1f}"


def is_needed(results: Mapping[str, Any]) -> bool | None:
    """Whether neighbourhoods differ by more than chance; None where no model could tell."""
    found, said = results["neighbourhoods"], results["suspicion"]
    if found is None or (said is not None and said["doubt"]):
        return None
    return bool(found["adaptation"]["is_needed"])


def told(results: Mapping[str, Any]) -> list[str]:
    """Whether HAR had anything to adapt to, in a sentence; none where nothing was estimated."""
    if (found := results["neighbourhoods"]) is None:
        return []
    a = found["adaptation"]
    spread = (
        f"tau differs from example to example by {100 * a['spread']:.0f}% of its mean, and by "
        f"{100 * a['standard_error']:.0f}% where all neighbourhoods are alike"
    )
    if (needed := is_needed(results)) is None:
        return [f"{spread}; by models that know too little to tell"]
    if needed:
        return [f"{spread}: there is something to adapt to"]
    return [
        f"{spread}: there is nothing to adapt to that shows, and uniform regularization is as good"
    ]


def recovered(
    noise: Float[np.ndarray, " n"], flipped: Bool[np.ndarray, " n"], classes: Int[np.ndarray, " n"]
) -> float | None:
    """Spearman's correlation of the mean noise of each class with the share that is flipped there.

    None of fewer than three classes, or where one of the two is the same in all.

    Args:
      noise: ``[n]``, I of each example.
      flipped: ``[n]``, whether its label is wrong.
      classes: ``[n]``, its label, or its true class.
    """
    present, index = np.unique(classes, return_inverse=True)
    counts = np.bincount(index)
    shares = [np.bincount(index, values) / counts for values in (noise, flipped)]
    if len(present) < 3 or any(np.ptp(share) == 0 for share in shares):
        return None
    from scipy import stats  # takes most of a second

    return float(stats.spearmanr(*shares).statistic)
