"""Which labels are likely wrong, by models that did not see them, and how often that is so."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Float, Int

from har_jax.estimation.out_of_sample import OutOfSample


def suspicion(said: OutOfSample, labels: Int[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    r"""How suspicious a label is: the margin of another prediction over it.

    :math:`\max_k p_k - p_y` where a class is predicted that is not the label, with p out of sample,
    and :math:`-p_y` where the label is. docs/results/suspicion.md has how often the most suspicious
    labels are wrong, beside other rankings.

    Args:
      said: Of m of the n training examples. Where it knows no confidence, that of a prediction
        counts as 1.
      labels: As trained on.

    Returns:
      ``[m]`` in [-1, 1], above 0 where the label is contradicted; NaN of what could not be read.
    """
    of_label = np.exp(-np.asarray(said.loss, np.float64))
    highest = np.ones(len(of_label)) if said.confidence is None else said.confidence
    margin = np.where(contradicted(said, labels), highest - of_label, -of_label)
    return np.where(said.prediction < 0, np.nan, margin)


def contradicted(said: OutOfSample, labels: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " m"]:
    """Whether another class is predicted than the label of each of the m examples.

    Args:
      said: Of some or all of the n training examples.
      labels: As trained on.
    """
    return (said.prediction >= 0) & (said.prediction != labels[said.index])


def most_suspicious(said: OutOfSample, labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " c"]:
    """The rows of ``said`` whose labels are contradicted, the most suspicious first."""
    rows = np.flatnonzero(contradicted(said, labels))
    return rows[np.argsort(-suspicion(said, labels)[rows], kind="stable")]


def precision_at(
    counts: Iterable[int], ranked: Int[np.ndarray, " c"], wrong: Bool[np.ndarray, " n"]
) -> dict[int, float]:
    """The share of examples with a wrong label among the first of a ranking.

    Args:
      counts: Of how many of the first; those beyond the ranking's length are left out.
      ranked: Examples, the most suspicious first.
      wrong: Of every example, whether its label is.
    """
    return {
        count: float(np.mean(wrong[ranked[:count]])) for count in counts if count <= len(ranked)
    }
