"""Which labels are likely wrong, by models that did not see them, and how often that is so."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Int

from har_jax.estimation.out_of_sample import OutOfSample

_FEW = 10  # labels of a class, of which it is not said whether models know it


def contradicted(said: OutOfSample, labels: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " m"]:
    """Whether another class is predicted than the label of each of the m examples.

    Args:
      said: Of some or all of the n training examples.
      labels: As trained on.
    """
    return (said.prediction >= 0) & (said.prediction != labels[said.index])


def unlearned(said: OutOfSample, labels: Int[np.ndarray, " n"]) -> list[int]:
    """Classes that are predicted no more often where they are the label than elsewhere.

    All labels of such a class look wrong, or a part of them that chance chose. The bound is three
    standard errors of what chance gives.

    Args:
      said: Of some or all of the n training examples.
      labels: As trained on.
    """
    read = said.prediction >= 0
    own, predictions = labels[said.index[read]], said.prediction[read]
    classes = max(own.max(initial=0), predictions.max(initial=0)) + 1
    of = lambda ids: np.bincount(ids, minlength=classes)
    count, share = of(own), of(predictions) / max(len(own), 1)
    most = count * share + 3 * np.sqrt(count * share * (1 - share))
    return np.flatnonzero((count >= _FEW) & (of(own[own == predictions]) <= most)).tolist()


def most_suspicious(said: OutOfSample, labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " c"]:
    """The rows of ``said`` whose labels are contradicted, the most suspicious first.

    That is the greatest held-out loss, or the least probability of the label, which cleanlab calls
    self-confidence (Northcutt et al. 2021, arXiv 1911.00068). docs/results/suspicion.md has how
    often such labels are wrong, beside other rankings.

    Args:
      said: Of some or all of the n training examples.
      labels: As trained on.
    """
    rows = np.flatnonzero(contradicted(said, labels))
    return rows[np.argsort(-said.loss[rows], kind="stable")]


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
