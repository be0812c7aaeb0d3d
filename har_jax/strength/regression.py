r"""How strongly to regularize each group of a regression: from its residuals and its frequency.

.. math::

    \tau = V^{2/5} H^{1/5} q^{-2/5}

with :math:`V` the variance of the loss's derivative at the truth, :math:`H` its mean second
derivative there and :math:`q` the density: what section 2.2 of Cao et al. 2021 derives if noise and
curvature are not one number I (:mod:`har_jax.theory.asymptotics`). For labels they are, and the
rule is :func:`har_jax.noise_frequency_tau`. Of the squared loss, half of the square, H is 1 and V
the variance of the residuals; the paper sets I = 1 there, and its rule sees no noise.
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Integer, Real

from har_jax.strength.groups import sums_by_group
from har_jax.strength.statistics import (
    OfGroups,
    as_ids,
    check_smoothing,
    known_ids,
    smoothed,
    warn_of_empty,
)


def regression_tau(noise, frequency, curvature=1.0):
    r"""Computes :math:`\tau = V^{2/5} H^{1/5} q^{-2/5}` elementwise, of NumPy or JAX arrays.

    Args:
      noise: V, the variance of the loss's derivative, not negative; of half of the squared error
        that of the residuals.
      frequency: q, positive.
      curvature: H, the mean of the loss's second derivative, not negative; 1 of half of the squared
        error. With H = V this is :func:`har_jax.noise_frequency_tau`.
    """
    return noise ** (2 / 5) * curvature ** (1 / 5) / frequency ** (2 / 5)


@dataclasses.dataclass(frozen=True)
class ResidualStatistics(OfGroups):
    r"""What is known of each of G groups, and what follows.

    Attributes:
      groups: ``[G]`` ids, ascending.
      count: ``[G]``, training examples.
      validation_count: ``[G]``, residuals.
      observed_noise: ``[G]``, the mean square of the residuals; NaN where there are none.
      standard_error: ``[G]``, of it: :math:`V ((\kappa - 1) / m)^{1/2}` for m residuals, where
        :math:`\kappa` is the kurtosis of all residuals, each in units of its group's, 3 of normal
        ones. NaN where there are none.
      noise: ``[G]``, V: the observed noise, smoothed.
      frequency: ``[G]``, q, the share of the training set.
      tau: ``[G]``, :math:`V^{2/5} q^{-2/5}`.
    """

    groups: Integer[np.ndarray, " G"]
    count: Integer[np.ndarray, " G"]
    validation_count: Integer[np.ndarray, " G"]
    observed_noise: Float[np.ndarray, " G"]
    standard_error: Float[np.ndarray, " G"]
    noise: Float[np.ndarray, " G"]
    frequency: Float[np.ndarray, " G"]
    tau: Float[np.ndarray, " G"]


def residual_statistics(
    groups: Integer[np.ndarray, " n"],
    validation_groups: Integer[np.ndarray, " m"],
    residuals: Real[np.ndarray, " m"],
    *,
    ids: Integer[np.ndarray, " G"] | None = None,
    smoothing: float | None = 0.0,
) -> ResidualStatistics:
    r"""Estimates V and q of every group, and :math:`\tau`, for the squared error.

    V is the mean square of a group's residuals rather than their variance, so that it also has what
    the pre-trained model does not know of the group, as a group's error has of labels.

    Args:
      groups: ``[n]``, the group of every example of the whole training set.
      validation_groups: ``[m]``, the group of every validation example.
      residuals: ``[m]``, what the pre-trained model, which did not see them, predicts of these,
        minus what was measured; or the derivative of another loss, whose H is to be given to
        :func:`regression_tau`.
      ids: ``[G]``, all groups there are, to include some that have no examples; by default those
        that occur.
      smoothing: The number of imaginary residuals with the pooled mean square that are added to
        every group; None: as many as the groups themselves ask for, by how far the logarithms of
        their mean squares differ beyond chance, in the manner of Smyth (2004, "Linear models and
        empirical Bayes methods", section 6.2).

    Returns:
      The :class:`ResidualStatistics`.

    Raises:
      ValueError: if ids are not integers, lengths differ, residuals are not finite, there are none
        or smoothing is negative or not finite.

    Warns:
      UserWarning: if a group has no validation or no training example.

    Example:
      >>> groups, held_out = np.array([0, 0, 0, 1]), np.array([0, 0, 1])
      >>> s = residual_statistics(groups, held_out, np.array([1, -1, 2.0]))
      >>> s.noise, s.frequency
      (array([1., 4.]), array([0.75, 0.25]))
      >>> s.tau.round(3)  # (1 / 0.75)**0.4, (4 / 0.25)**0.4
      array([1.122, 3.031])
    """
    groups = as_ids("groups", groups)
    validation_groups = as_ids("validation_groups", validation_groups)
    residuals = np.asarray(residuals, np.float64)
    _check(residuals, validation_groups, smoothing)
    known = known_ids(groups, validation_groups, ids)
    count = sums_by_group(known, groups, np.ones(len(groups))).astype(np.int64)
    validated = sums_by_group(known, validation_groups, np.ones(len(residuals)))
    squares = sums_by_group(known, validation_groups, residuals**2)
    observed = np.divide(squares, validated, out=np.full(len(known), np.nan), where=validated > 0)

    standard = residuals / np.sqrt(observed[np.searchsorted(known, validation_groups)] + 1e-300)
    excess = max(float(np.mean(standard**4)) - 1, 1e-3) if np.any(residuals) else 2.0
    error = observed * np.sqrt(excess / np.where(validated > 0, validated, 1))

    pooled = float(np.mean(residuals**2))
    if smoothing is None:
        several = (validated > 1) & (squares > 0)
        smoothing = _asked_for(observed[several], validated[several] * 2 / excess)
        squares, validated = squares * 2 / excess, validated * 2 / excess
    noise = smoothed(squares, validated, smoothing, pooled)
    frequency = count / max(len(groups), 1)
    absent = count == 0
    tau = np.where(absent, 0.0, regression_tau(noise, np.where(absent, 1.0, frequency)))
    shown = np.bincount(np.searchsorted(known, validation_groups), minlength=len(known))
    warn_of_empty(known, count, shown, f"their noise is taken to be the pooled one, {pooled:.3g}")
    return ResidualStatistics(known, count, shown, observed, error, noise, frequency, tau)


def _asked_for(noise: Float[np.ndarray, " G"], counts: Float[np.ndarray, " G"]) -> float:
    r"""How many imaginary residuals the groups ask for: infinitely many where they are alike.

    The logarithm of the mean square of d normal numbers has the variance
    :math:`\psi'(d / 2)`; what the groups' logarithms vary beyond that is :math:`\psi'(d_0 / 2)`.
    """
    if len(noise) < 2:
        return np.inf
    from scipy import special  # which the rest of the package does without

    logs = np.log(noise) - special.digamma(counts / 2) + np.log(counts / 2)
    excess = np.var(logs, ddof=1) - np.mean(special.polygamma(1, counts / 2))
    return 2 * _inverse_trigamma(excess) if excess > 0 else np.inf


def _inverse_trigamma(value: float) -> float:
    """The y with trigamma(y) = value, by Newton's method on 1 / trigamma, which is convex."""
    from scipy import special

    y = 0.5 + 1 / value
    for _ in range(50):
        trigamma = special.polygamma(1, y)
        step = trigamma * (1 - trigamma / value) / special.polygamma(2, y)
        y += step
        if abs(step) < 1e-10 * y:
            break
    return float(y)


def _check(residuals: np.ndarray, groups: np.ndarray, smoothing: float | None) -> None:
    if residuals.shape != groups.shape:
        raise ValueError(f"there are {residuals.size} residuals for {groups.size} groups")
    if not residuals.size:
        raise ValueError("there are no residuals to estimate the noise from")
    if not np.all(finite := np.isfinite(residuals)):
        bad = int(np.argmin(finite))
        raise ValueError(f"residual {residuals[bad]} of example {bad} is not finite")
    check_smoothing(smoothing)
