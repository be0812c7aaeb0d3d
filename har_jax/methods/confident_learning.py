"""Confident learning: labels that are flagged are dropped or changed, then training is plain."""

from typing import Annotated, Literal

import numpy as np
from jaxtyping import Int

from har_jax.methods.shared.entry import Setting
from har_jax.options import Option


def confident_labels(
    setting: Setting,
    *,
    filter_by: Annotated[
        Literal["prune_by_noise_rate", "prune_by_class", "both", "confident_learning"],
        Option("how cleanlab chooses the labels that it flags"),
    ] = "prune_by_noise_rate",
    relabel: Annotated[
        bool, Option("whether flagged examples get the label that is predicted, or are dropped")
    ] = False,
) -> Int[np.ndarray, " n"]:
    """The labels that examples are trained with, by what was said of them out of sample.

    Northcutt et al. 2021 (arXiv 1911.00068), by cleanlab's own filter.

    Args:
      setting: With ``probabilities``; examples of which nothing is known stay as they are.
      filter_by: As :func:`cleanlab.filter.find_label_issues` takes it.
      relabel: Whether to change labels in place of dropping examples.

    Returns:
      ``[n]``, -1 of examples that are dropped.
    """
    from cleanlab.filter import find_label_issues  # takes seconds to import

    assert setting.probabilities is not None
    known = np.flatnonzero(np.isfinite(setting.probabilities).all(axis=1))
    probabilities = setting.probabilities[known].astype(np.float64)
    labels = setting.labels.copy()
    flagged = known[
        find_label_issues(
            labels[known],
            probabilities / probabilities.sum(axis=1, keepdims=True),
            filter_by=filter_by,
            n_jobs=1,
        )
    ]
    labels[flagged] = setting.probabilities[flagged].argmax(axis=1) if relabel else -1
    return labels
