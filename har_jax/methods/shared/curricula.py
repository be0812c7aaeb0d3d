r"""Curricula: weights of examples by their losses, as training goes on.

Those that MentorNet (Jiang et al. 2018, arXiv 1712.05055) unites. A weight goes by an example's
loss :math:`\ell`, by its difference :math:`d = \ell - \bar\ell_p` from a moving average of the p-th
percentile of batches' losses, and by how much of training is over, in whole percents from 0 to 99.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from har_jax.methods.shared.axis import keys_of_rows, place_of, ranks, whole

PERCENTS = 100
Plan = Sequence[tuple[float, int]]
"""Rates, and the percents of training that each is for, one after the other."""

_ALL_UNTIL = 18
_LINEAR_FROM = 90
_ROUNDING = 1e-9  # of a share times a batch


def self_paced(difference: Float[Array, " b"]) -> Float[Array, " b"]:
    r"""Takes the examples with :math:`d \le 0`: Kumar et al. 2010's curriculum."""
    return (difference <= 0).astype(difference.dtype)


def linear(difference: Float[Array, " b"], gamma: float = 1.0) -> Float[Array, " b"]:
    r"""Computes :math:`1 - d / \gamma`, clipped to [0, 1].

    Jiang et al. 2015's self-paced curriculum with linear weights.
    """
    return jnp.clip(1 - difference / gamma, 0, 1)


def hard_examples(difference: Float[Array, " b"]) -> Float[Array, " b"]:
    r"""Takes the examples with :math:`d \ge 0`: hard example mining."""
    return (difference >= 0).astype(difference.dtype)


def focal(loss: Float[Array, " b"], gamma: float = 2.0) -> Float[Array, " b"]:
    r"""Computes :math:`(1 - e^{-\ell})^\gamma`, the factor of Lin et al. 2017 as a weight."""
    return jnp.power(-jnp.expm1(-loss), gamma)


def predefined(
    difference: Float[Array, " b"], percent: Int[Array, ""] | Int[Array, " b"]
) -> Float[Array, " b"]:
    """All examples up to percent 18, self-paced below 90, linear from there: MentorNet PD."""
    late = jnp.where(percent < _LINEAR_FROM, self_paced(difference), linear(difference))
    return jnp.where(percent <= _ALL_UNTIL, 1, late)


Curriculum = Callable[[Float[Array, " b"], Float[Array, " b"], Int[Array, ""]], Float[Array, " b"]]
"""``(loss, difference, percent) -> weights``."""

CURRICULA: Mapping[str, Curriculum] = {
    "predefined": lambda loss, difference, percent: predefined(difference, percent),
    "self_paced": lambda loss, difference, percent: self_paced(difference),
    "linear": lambda loss, difference, percent: linear(difference),
    "hard_examples": lambda loss, difference, percent: hard_examples(difference),
    "focal": lambda loss, difference, percent: focal(loss),
}
"""Those in closed form, by name."""


def nearest_percentile(
    values: Float[Array, " b"], share: float, axis: str | None = None
) -> Float[Array, ""]:
    r"""The value of the whole batch that stands at :math:`p (B - 1)`, rounded, in their order.

    Nothing is interpolated, as in the authors' code.

    Args:
      values: ``[b]``, of the rows that are here.
      share: p, in [0, 1].
      axis: The name of the mapped axis that the batch is split over; None if it is not.
    """
    everywhere = whole(values, axis)
    return jnp.sort(everywhere)[round(share * (len(everywhere) - 1))]


def moving_average(
    average: Float[Array, ""], value: Float[Array, ""], decay: float
) -> Float[Array, ""]:
    """The average with one more value, of which it keeps ``decay``.

    It begins at 0 and nothing corrects for that, as in the authors' code: at a decay of 0.5 it is
    too low in the first five steps or so.
    """
    return decay * average + (1 - decay) * value.astype(average.dtype)


def percent_of(step: Int[Array, ""], total_steps: int) -> Int[Array, ""]:
    """How much of training is over before a step, ``floor(100 step / total)``, at most 99."""
    # In integers that no product makes overflow.
    begins = [-(-percent * total_steps // PERCENTS) for percent in range(1, PERCENTS)]
    return jnp.sum(step >= np.array(begins, np.int32), dtype=jnp.int32)


def rates_by_percent(plan: Plan) -> Float[np.ndarray, "100"]:
    """The rate of each percent of training.

    Args:
      plan: For example ``((0.5, 17), (0.05, 83))``: 0.5 in the first 17 percents, then 0.05.

    Raises:
      ValueError: if a rate is none, or the percents do not add up to 100.
    """
    if any(not 0 <= rate <= 1 or percents < 0 for rate, percents in plan):
        raise ValueError(f"dropout={plan} must hold rates in [0, 1], each with its percents")
    if (total := sum(percents for _, percents in plan)) != PERCENTS:
        raise ValueError(
            f"dropout={plan} is of {total} percent of training: its percents must add up to 100"
        )
    rates, percents = zip(*plan, strict=True)
    return np.repeat(np.array(rates, float), percents)


def draw_chances(key: PRNGKeyArray, rows: int, axis: str | None = None) -> Float[Array, " b"]:
    """A number from [0, 1) for each row, whatever part of the batch is where."""
    return jax.vmap(jax.random.uniform)(keys_of_rows(key, rows, axis))


def survivors(
    chances: Float[Array, " b"],
    rates: Float[np.ndarray, "100"],
    percent: Int[Array, ""],
    axis: str | None = None,
) -> Bool[Array, " b"]:
    r"""Which rows example dropout leaves: :math:`\lfloor B (1 - rate) \rfloor` at random.

    Args:
      chances: ``[b]``, of :func:`draw_chances`.
      rates: By percent, of :func:`rates_by_percent`.
      percent: Of training.
      axis: The name of the mapped axis that the batch is split over; None if it is not.
    """
    size = len(chances) * place_of(axis)[1]
    left = [math.floor(size * (1 - rate) + _ROUNDING) for rate in rates.tolist()]
    return ranks(chances, axis) < jnp.array(left, jnp.int32)[percent]
