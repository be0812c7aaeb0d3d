"""Groups by what models say an example is that did not see it.

Where noise is one-sided a label says less of where an example lies than its prediction does: those
that are called b, and are a, lie among the a.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from har_jax.estimation.neighbourhoods import Groups, Mixture
from har_jax.options import Option

Balanced = Annotated[
    bool,
    Option(
        "whether probabilities are divided by the labels' shares, as if all classes were equally "
        "frequent"
    ),
]


def prediction(
    *,
    probabilities: Float[np.ndarray, "n K"],
    labels: Int[np.ndarray, " n"],
    class_names: Sequence[str],
    balanced_prior: Balanced = False,
) -> Groups:
    """By the likeliest class; by its label where nothing is said of an example."""
    said = _of_all(probabilities, labels, balanced_prior)
    return Groups(said.argmax(axis=1), tuple(class_names))


def mixture(
    *,
    probabilities: Float[np.ndarray, "n K"],
    labels: Int[np.ndarray, " n"],
    class_names: Sequence[str],
    balanced_prior: Balanced = False,
) -> Mixture:
    """By all classes, each as far as it is probable: tau of an example is the mean of theirs."""
    return Mixture(_of_all(probabilities, labels, balanced_prior), tuple(class_names))


def _of_all(
    probabilities: Float[np.ndarray, "n K"], labels: Int[np.ndarray, " n"], balanced: bool
) -> Float[np.ndarray, "n K"]:
    known = ~np.isnan(probabilities).any(axis=1)
    said = np.eye(probabilities.shape[1])[labels]
    said[known] = probabilities[known]
    if balanced:  # p(class | x) over p(class) is p(x | class), up to a factor
        shares = np.bincount(labels, minlength=probabilities.shape[1]) / len(labels)
        weighted = said[known] / np.where(shares > 0, shares, 1)
        said[known] = weighted / weighted.sum(axis=1, keepdims=True)
    return said
