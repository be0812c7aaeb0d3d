"""How much noise an example shows, of which I of a neighbourhood is the mean.

Functions of arrays, of all n training examples; NaN where an example does not count.
"""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, Int

Noises = Mapping[str, Callable[..., Float[np.ndarray, " n"]]]


def error(
    *, prediction: Int[np.ndarray, " n"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Whether a model that did not see an example contradicts its label: the paper's.

    Args:
      prediction: ``[n]``, -1 where there is none.
      labels: ``[n]``, as trained on.
    """
    return np.where(prediction < 0, np.nan, prediction != labels)


def expected_error(*, probabilities: Float[np.ndarray, "n K"]) -> Float[np.ndarray, " n"]:
    r"""How often two labels drawn for an example would differ: :math:`\sum_k p_k (1 - p_k)`.

    Args:
      probabilities: ``[n, K]``, out of sample and calibrated; rows of NaN where nothing is known.
    """
    return np.clip(1 - np.sum(probabilities**2, axis=1), 0, 1)


def confident_joint(
    *, probabilities: Float[np.ndarray, "n K"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Whether an example's label is contradicted where a model is sure: of those where it is.

    By the confident joint of Northcutt et al. 2021 (arXiv 1911.00068, section 3.1): the mean over
    the examples of a class is what is off the diagonal in its row, over the row's sum.

    Args:
      probabilities: ``[n, K]``, out of sample; rows of NaN where nothing is known.
      labels: ``[n]``, as trained on.
    """
    known = ~np.isnan(probabilities).any(axis=1)
    probable, own = probabilities[known], labels[known]
    count = probabilities.shape[1]
    sizes = np.bincount(own, minlength=count)
    usual = np.full(count, np.inf)  # of its own class, where it is the label
    mine = probable[np.arange(len(own)), own]
    usual = np.divide(np.bincount(own, mine, count), sizes, out=usual, where=sizes > 0)
    sure = probable >= usual
    likeliest = np.where(sure, probable, -1).argmax(axis=1)
    found = np.full(len(labels), np.nan)
    found[np.flatnonzero(known)] = np.where(sure.any(axis=1), likeliest != own, np.nan)
    return found


NOISES: Noises = {
    "error": error,
    "expected_error": expected_error,
    "confident_joint": confident_joint,
}
