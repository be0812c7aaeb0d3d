"""Groups that lie together in a network's features."""

from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from har_jax.estimation.neighbourhoods import Groups
from har_jax.options import Option
from har_jax.strength.neighbours import unit_rows


def cluster(
    *,
    features: Float[np.ndarray, "n d"],
    spaces: Int[np.ndarray, " n"],
    class_names: tuple[str, ...],
    seed: int,
    clusters: Annotated[
        int | None,
        Option("groups of each pre-trained network's features; None: one a class", gt=0),
    ] = None,
) -> Groups:
    """By k-means of features of length one, in the space of each pre-trained network."""
    from sklearn.cluster import KMeans

    wanted = len(class_names) if clusters is None else clusters
    unit = unit_rows(features)
    ids, names = np.zeros(len(features), np.int64), list[str]()
    every = np.unique(spaces)
    for space in every:
        rows = np.flatnonzero(spaces == space)
        distinct = len(np.unique(unit[rows], axis=0))
        found = KMeans(min(wanted, distinct), n_init=4, random_state=seed % 2**32).fit(unit[rows])
        ids[rows] = found.labels_ + len(names)
        prefix = f"fold {space}, " if len(every) > 1 else ""
        names += [f"{prefix}cluster {k}" for k in range(found.n_clusters)]
    return Groups(ids, tuple(names))
