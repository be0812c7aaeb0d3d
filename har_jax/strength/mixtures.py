"""Groups that examples belong to in part."""

import numpy as np
from jaxtyping import Bool, Float, Real

from har_jax.strength.statistics import (
    GroupStatistics,
    checked_errors,
    statistics_of,
    warn_of_empty,
)


def mixture_statistics(
    shares: Float[np.ndarray, "n G"],
    validation_shares: Float[np.ndarray, "m G"],
    validation_errors: Real[np.ndarray, " m"] | Bool[np.ndarray, " m"],
    *,
    smoothing: float | None = 0.0,
) -> GroupStatistics:
    r"""Estimates I and q of groups that overlap, and :math:`\tau`.

    With :math:`p_{ig}` the share of example i that belongs to group g, such as the probability of a
    class, and :math:`e_j` the errors of validation examples,

    .. math::

        I_g = \frac{\sum_j p_{jg} e_j}{\sum_j p_{jg}}, \qquad q_g = \frac1n \sum_i p_{ig}.

    An example's :math:`\tau_i = \sum_g p_{ig} \tau_g` is ``shares @ statistics.tau``. With shares
    of 0 and 1 this is :func:`har_jax.group_statistics`.

    Args:
      shares: ``[n, G]``, of every example of the whole training set, not negative; those of an
        example add up to 1.
      validation_shares: ``[m, G]``, of every validation example.
      validation_errors: ``[m]``, numbers in [0, 1].
      smoothing: As :func:`har_jax.group_statistics` takes it. With None a group counts as
        :math:`(\sum_j p_{jg})^2 / \sum_j p_{jg}^2` validation examples (Kish 1965, "Survey
        Sampling").

    Returns:
      The :class:`har_jax.GroupStatistics` of the groups 0 to G - 1, whose counts are sums of
      shares.

    Raises:
      ValueError: if shapes do not fit, shares are none, errors are outside of [0, 1], there are no
        validation examples or smoothing is negative or not finite.

    Warns:
      UserWarning: if a group has no validation or no training example.

    Example:
      >>> shares = np.array([[1, 0], [0.5, 0.5], [0, 1]])
      >>> s = mixture_statistics(shares, shares, np.array([0, 1, 1]))
      >>> s.error.round(3), s.frequency
      (array([0.333, 1.   ]), array([0.5, 0.5]))
    """
    shares, validation = _shares("shares", shares), _shares("validation_shares", validation_shares)
    if validation.shape[1] != shares.shape[1]:
        raise ValueError(
            f"shares are of {shares.shape[1]} groups, validation_shares of {validation.shape[1]}"
        )
    if np.shape(validation_errors) != (len(validation),):
        raise ValueError(
            f"there are {np.size(validation_errors)} validation errors for shares of "
            f"{len(validation)} examples"
        )
    errors = checked_errors(validation_errors, smoothing)
    counted, squares = validation.sum(axis=0), (validation**2).sum(axis=0)
    statistics = statistics_of(
        np.arange(shares.shape[1]),
        shares.sum(axis=0),
        counted,
        validation.T @ errors,
        errors,
        smoothing,
        shares.sum(axis=0) / max(len(shares), 1),
        independent=np.divide(counted**2, squares, out=np.zeros_like(counted), where=squares > 0),
    )
    taken = f"their noise is taken to be the pooled error, {errors.mean():.3f}"
    warn_of_empty(statistics.groups, statistics.count, statistics.validation_count, taken)
    return statistics


def _shares(name: str, values: Float[np.ndarray, "n G"]) -> Float[np.ndarray, "n G"]:
    values = np.asarray(values, np.float64)
    if values.ndim != 2:
        raise ValueError(f"{name} must be of shape [n, G]; got {list(values.shape)}")
    good = np.all(values >= 0, axis=1) & np.isclose(values.sum(axis=1), 1, atol=1e-3)
    if not np.all(good):
        row = int(np.argmin(good))
        raise ValueError(
            f"{name} of example {row} are {values[row].tolist()[:10]}: numbers that are not "
            "negative and add up to 1 are needed"
        )
    return values
