"""Differences between two methods, with how sure they are: over test examples, and over seeds.

All of these are shares, of which 0.01 is a point.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special

_LEVEL = 0.95
EXAMPLES, SEEDS = "test examples", "seeds"


class Spread(NamedTuple):
    """Values of several seeds.

    Attributes:
      mean: Of them.
      standard_error: Of the mean; None of one.
    """

    mean: float
    standard_error: float | None


class Difference(NamedTuple):
    """How much better one method does than another.

    Attributes:
      mean: The difference of their accuracies; positive where the second is the better.
      standard_error: Of that; None where nothing says how sure it is.
      low: Where the 95% interval begins; None as well.
      high: Where it ends; None as well.
      over: What it is an interval over, :data:`EXAMPLES` or :data:`SEEDS`.
      n: How many of these there are.
    """

    mean: float
    standard_error: float | None
    low: float | None
    high: float | None
    over: str
    n: int

    @property
    def shows(self) -> bool:
        """Whether the interval is on one side of nothing."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def over_examples(
    before: Bool[np.ndarray, " t"],
    after: Bool[np.ndarray, " t"],
    groups: Int[np.ndarray, " t"],
    members: Sequence[int],
) -> Difference | None:
    """The difference of mean accuracies over groups, each of which counts alike.

    Both methods are asked of the same examples, of which those count that only one of them gets
    right. The variance is the one of no difference, :math:`\\sum_g d_g / (G n_g)^2` with
    :math:`d_g` of the :math:`n_g` examples of a group of that kind (McNemar 1947), as if in all one
    more of them were so (Agresti and Min 2005), which keeps it from being nothing where all
    examples agree. It is no less than the usual one, and knows nothing of what another seed of
    training would give.

    Args:
      before: Which test examples the first gets right.
      after: Which the second does.
      groups: Whose examples they are.
      members: The groups that are averaged over; those without examples are left out.

    Returns:
      None where there are no examples.
    """
    places = [np.flatnonzero(groups == group) for group in members]
    places = [rows for rows in places if len(rows)]
    if not places:
        return None
    count = len(places)
    step = after.astype(float) - before
    mean = math.fsum(float(np.mean(step[rows])) for rows in places) / count
    differing = [float(np.sum(step[rows] != 0)) + 1 / count for rows in places]
    terms = (many / len(rows) ** 2 for many, rows in zip(differing, places, strict=True))
    standard_error = math.sqrt(math.fsum(terms)) / count
    reach = float(special.ndtri((1 + _LEVEL) / 2)) * standard_error
    examples = sum(map(len, places))
    return Difference(mean, standard_error, mean - reach, mean + reach, EXAMPLES, examples)


def over_seeds(before: Sequence[float], after: Sequence[float]) -> Difference | None:
    """The mean difference of accuracies at the same seeds, with Student's interval.

    Args:
      before: Of the first, by seed.
      after: Of the second, at the same seeds.

    Returns:
      None where there are no seeds; of one seed a difference without an interval.
    """
    if not len(before):
        return None
    steps = np.subtract(after, before)
    mean, standard_error = spread(steps)
    if standard_error is None:
        return Difference(mean, None, None, None, SEEDS, 1)
    reach = float(special.stdtrit(len(steps) - 1, (1 + _LEVEL) / 2)) * standard_error
    return Difference(mean, standard_error, mean - reach, mean + reach, SEEDS, len(steps))


def spread(values: Sequence[float] | Float[np.ndarray, " s"]) -> Spread:
    """The mean of values, and its standard error, where there are several."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return Spread(float(values.mean()), None)
    return Spread(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))))
