"""Whether groups differ by more than chance: whether there is anything to adapt to."""

from typing import NamedTuple

import numpy as np

from har_jax.strength.scaling import noise_frequency_tau
from har_jax.strength.statistics import GroupStatistics

_BY_CHANCE = 0.05  # the probability below which it is not
_FELT = 0.1  # of the mean: a smaller spread is not worth a pre-trained model


class Adaptation(NamedTuple):
    r"""How far :math:`\tau` differs from one example to another, as parts of its mean.

    Attributes:
      spread: The standard deviation over examples of their groups' :math:`\tau`, with the errors
        as they were observed.
      standard_error: Of it, from those of the errors: the spread that groups would have which are
        alike.
      by_chance: The probability of such a spread where groups are alike, by
        :math:`\chi^2 = (G - 1) (\mathrm{spread} / \mathrm{standard\_error})^2`.
    """

    spread: float
    standard_error: float
    by_chance: float

    @property
    def is_needed(self) -> bool:
        """Whether one strength for all would not do as well."""
        return self.by_chance < _BY_CHANCE and self.spread > _FELT


def adaptation(statistics: GroupStatistics, validated: int) -> Adaptation:
    r"""Compares the spread of :math:`\tau` over groups with what chance alone makes.

    :math:`\tau = I^{3/5} q^{-2/5}`, of which q is known, so that by the delta method its standard
    error is :math:`\tau \cdot \frac35 \sigma_I / I`, in which I counts as its standard error
    :math:`\sigma_I` at least.

    Args:
      statistics: Of groups.
      validated: The validation examples that they are from, each of which may count for several
        groups: groups that share theirs are not as many.

    Raises:
      ValueError: if no group has training examples and validation examples.
    """
    s = statistics
    shown = (s.count > 0) & (s.validation_count > 0)
    if not np.any(shown):
        raise ValueError("no group has training examples and validation examples")
    weight = s.count[shown] / s.count[shown].sum()
    error = np.maximum(s.observed_error[shown], s.standard_error[shown])
    tau = noise_frequency_tau(error, s.frequency[shown])
    mean = float(weight @ tau)
    spread = float(np.sqrt(weight @ (tau - mean) ** 2)) / mean
    own = 0.6 * tau * s.standard_error[shown] / error
    chance = float(np.sqrt(weight @ own**2)) / mean
    groups = min(int(shown.sum()), round(validated / s.validation_count[shown].mean()))
    if groups < 2:
        return Adaptation(spread, chance, 1.0)
    from scipy import special  # which the rest of the package does without

    freedom = groups - 1
    by_chance = float(special.chdtrc(freedom, freedom * (spread / chance) ** 2))
    return Adaptation(spread, chance, by_chance)
