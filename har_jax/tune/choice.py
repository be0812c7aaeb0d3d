"""Which of several values is the best one, by what runs with them scored."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

_DECIMALS = 12  # in which means are compared, so that sums of another order are a tie


class Choice(NamedTuple):
    """The best of V values.

    Attributes:
      best: Its index.
      mean: ``[V]``, over seeds.
      standard_error: ``[V]``, of the mean; NaN of one seed.
      failed: ``[V]``, of how many seeds there is no score.
      edge: Whether it is the least or the greatest value, beyond which a better one may lie. None
        if it is neither, of one value alone, and of 0, below which there is none.
    """

    best: int
    mean: Float[np.ndarray, " V"]
    standard_error: Float[np.ndarray, " V"]
    failed: Int[np.ndarray, " V"]
    edge: Literal["least", "greatest"] | None


def choose(
    values: Sequence[float] | Float[np.ndarray, " V"], scores: Float[np.ndarray, "V S"]
) -> Choice:
    """Chooses the value of the greatest mean score.

    Of equal means it is the value with fewer failures, and of these the least value.

    Args:
      values: ``[V]``, in any order, each once.
      scores: ``[V, S]``, a column for each seed, the greater the better, 0 being the worst. NaN
        where a run diverged, which counts as 0.

    Raises:
      ValueError: if there is no value or no seed.
    """
    values, scores = np.asarray(values, float), np.asarray(scores, float)
    if scores.ndim != 2 or scores.shape[0] != len(values) or scores.size == 0:
        raise ValueError(
            f"scores {scores.shape} are not [V, S] of {len(values)} values and some seeds"
        )
    counted = np.nan_to_num(scores, nan=0.0)
    mean, seeds = counted.mean(1), scores.shape[1]
    failed = np.isnan(scores).sum(1)
    best = int(np.lexsort((values, failed, -mean.round(_DECIMALS)))[0])
    error = counted.std(1, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.full(len(values), np.nan)
    return Choice(best, mean, error, failed, _edge(values, values[best]))


def _edge(values: np.ndarray, chosen: float) -> Literal["least", "greatest"] | None:
    if len(values) == 1:
        return None
    if chosen == values.max():
        return "greatest"
    return "least" if chosen == values.min() and chosen != 0 else None
