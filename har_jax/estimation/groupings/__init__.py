"""Which training examples share a tau, a file each.

A grouping is a function that takes by keyword what it reads of :data:`READS`, beside its own
options, and returns :class:`har_jax.estimation.neighbourhoods.Neighbourhoods`.
"""

from collections.abc import Callable, Mapping

from har_jax.estimation.groupings.by_label import given, label
from har_jax.estimation.groupings.by_prediction import mixture, prediction
from har_jax.estimation.groupings.cluster import cluster
from har_jax.estimation.groupings.neighbours import neighbours
from har_jax.estimation.neighbourhoods import Neighbourhoods

READS = frozenset(
    {
        "labels",
        "class_names",
        "groups",
        "group_names",
        "prediction",
        "probabilities",
        "features",
        "spaces",
        "seed",
    }
)
"""What the program gives, of the n training examples: ``labels [n]`` as trained on, K
``class_names``; ``groups [n]`` of the data, which are its labels if it names none, and their
``group_names``; by models that did not see them, a ``prediction [n]``, -1 where there is none, and
``probabilities [n, K]``, calibrated, rows of NaN where nothing is known; ``features [n, d]`` that
the networks' last layer takes, and the ``spaces [n]`` these lie in, one of each network; a
``seed``."""

GROUPINGS: Mapping[str, Callable[..., Neighbourhoods]] = {
    "given": given,
    "label": label,
    "prediction": prediction,
    "mixture": mixture,
    "cluster": cluster,
    "neighbours": neighbours,
}

__all__ = ["GROUPINGS", "READS"]
