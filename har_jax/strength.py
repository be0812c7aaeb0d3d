r"""How strongly to regularize each group: from its noise and its frequency.

.. math::

    \tau = I^{3/5} / q^{2/5}

(section 2.3 of Cao et al. 2021), with :math:`I` the error of a pre-trained model on the
group's validation examples, :math:`q` the group's share of the whole training set. A
group is a class by default, and may be any integer id: a source, a cluster, a bucket.
These are computations on the host, in float64 NumPy.

Rules for groups with little data:

* no validation example: :math:`I` is the pooled error of all groups, with a warning;
* no training example: :math:`\tau` is 0, with a warning; no example carries it;
* few validation examples: by default :math:`I` is the error as it is, be it 0; ``smoothing`` adds
  that many imaginary validation examples with the pooled error to every group, and
  ``smoothing=None`` as many as the groups themselves ask for (:func:`group_statistics`).
"""

import dataclasses
import warnings

import numpy as np
from jaxtyping import Bool, Float, Integer, Real


@dataclasses.dataclass(frozen=True)
class GroupStatistics:
    """What is known of each of G groups, and what follows.

    Attributes:
      groups: ``[G]`` ids, ascending.
      count: ``[G]``, training examples.
      validation_count: ``[G]``, validation examples.
      observed_error: ``[G]``, the share e of validation examples that are wrong; NaN where there
        are none.
      standard_error: ``[G]``, of it: the standard deviation of its posterior under a uniform prior,
        :math:`(p (1 - p) / (m + 3))^{1/2}` with :math:`p = (m e + 1) / (m + 2)`, for m validation
        examples that are right or wrong. Not 0 where all of few are right, as
        :math:`(e (1 - e) / m)^{1/2}` is, which it comes to for many. NaN where there are none.
      error: ``[G]``, I: the observed error, smoothed.
      frequency: ``[G]``, q, the share of the training set.
      tau: ``[G]``, :math:`I^{3/5} / q^{2/5}`.
    """

    groups: Integer[np.ndarray, " G"]
    count: Integer[np.ndarray, " G"]
    validation_count: Integer[np.ndarray, " G"]
    observed_error: Float[np.ndarray, " G"]
    standard_error: Float[np.ndarray, " G"]
    error: Float[np.ndarray, " G"]
    frequency: Float[np.ndarray, " G"]
    tau: Float[np.ndarray, " G"]

    def per_example(
        self, values: Float[np.ndarray, " G"], groups: Integer[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Spreads ``values`` of the groups over examples.

        Args:
          values: ``[G]``, in the order of :attr:`groups`.
          groups: ``[n]``, the group of each example.

        Raises:
          ValueError: if an example is of a group that is not in :attr:`groups`, or there is
            not one value for each group.
        """
        groups, values = _ids("groups", groups), np.asarray(values)
        if values.shape != self.groups.shape:
            raise ValueError(
                f"{values.shape} values are not one for each of {len(self.groups)} groups"
            )
        index = np.minimum(np.searchsorted(self.groups, groups), len(self.groups) - 1)
        if np.any(unknown := self.groups[index] != groups):
            first = int(np.argmax(unknown))
            raise ValueError(
                f"example {first} is of group {groups[first]}, which has no statistics"
            )
        return values[index]


def group_statistics(
    groups: Integer[np.ndarray, " n"],
    validation_groups: Integer[np.ndarray, " m"],
    validation_errors: Real[np.ndarray, " m"] | Bool[np.ndarray, " m"],
    *,
    ids: Integer[np.ndarray, " G"] | None = None,
    smoothing: float | None = 0.0,
) -> GroupStatistics:
    r"""Estimates I and q of every group, and :math:`\tau`.

    Args:
      groups: ``[n]``, the group of every example of the whole training set.
      validation_groups: ``[m]``, the group of every validation example.
      validation_errors: ``[m]``, whether the pre-trained model errs there, or with which
        probability: numbers in [0, 1].
      ids: ``[G]``, all groups there are, to include some that have no examples; by
        default those that occur.
      smoothing: The number of imaginary validation examples with the pooled error that
        are added to every group; None: so many that the error of every group is shrunk to the
        pooled one by its standard error, see below.

    With ``smoothing=None`` a group's error :math:`e_g`, of :math:`m_g` of N validation examples,
    is shrunk to the pooled error p as far as it is uncertain,

    .. math::

        I_g = p + \frac{A}{A + (p (1 - p) - A) / m_g} (e_g - p),
        \qquad A = \max\Bigl(0,
        \frac{\sum_g m_g (e_g - p)^2 - (G - 1) p (1 - p)}{N - \sum_g m_g^2 / N - (G - 1)} \Bigr),

    where A is the variance between groups and :math:`(p (1 - p) - A) / m_g` what is left of the
    square of a group's standard error, both by the method of moments (Kleinman 1973, "Proportions
    with extraneous variance"): the mean of a posterior whose prior is a beta distribution fitted to
    the groups, or what :math:`p (1 - p) / A - 1` imaginary examples do. The sums that A is made of
    are over groups of two validation examples at least: one by itself tells nothing of A.

    Returns:
      The :class:`GroupStatistics`.

    Raises:
      ValueError: if ids are not integers, lengths differ, errors are outside of [0, 1],
        there are no validation examples or smoothing is negative or not finite.

    Warns:
      UserWarning: if a group has no validation or no training example.

    Example:
      >>> s = group_statistics(np.array([0, 0, 0, 1]), np.array([0, 0, 1]), np.array([0.0, 1, 1]))
      >>> s.error, s.frequency
      (array([0.5, 1. ]), array([0.75, 0.25]))
      >>> s.tau.round(3)  # 0.5**0.6 / 0.75**0.4, 1**0.6 / 0.25**0.4
      array([0.74 , 1.741])
    """
    groups = _ids("groups", groups)
    validation_groups = _ids("validation_groups", validation_groups)
    errors = np.asarray(validation_errors, np.float64)
    if errors.shape != validation_groups.shape:
        raise ValueError(
            f"there are {errors.size} validation errors for {validation_groups.size} groups"
        )
    if not errors.size:
        raise ValueError("there are no validation examples to estimate the noise from")
    if not np.all((errors >= 0) & (errors <= 1)):
        bad = int(np.argmin((errors >= 0) & (errors <= 1)))
        raise ValueError(f"validation error {errors[bad]} of example {bad} is not in [0, 1]")
    if smoothing is not None and not (np.isfinite(smoothing) and smoothing >= 0):
        raise ValueError(f"smoothing={smoothing} must be finite and not negative")

    seen = np.union1d(groups, validation_groups)
    known = seen if ids is None else np.unique(_ids("ids", ids))
    if missing := sorted(set(seen.tolist()) - set(known.tolist())):
        raise ValueError(f"groups {missing} occur among the examples but not in ids")

    count = _sums(known, groups, np.ones(len(groups)))
    validation_count = _sums(known, validation_groups, np.ones(len(errors)))
    wrong = _sums(known, validation_groups, errors)
    pooled = errors.mean()

    validated = validation_count > 0
    likely = (wrong + 1) / (validation_count + 2)
    spread = np.sqrt(likely * (1 - likely) / (validation_count + 3))
    observed = np.where(validated, wrong / np.where(validated, validation_count, 1), np.nan)
    if smoothing is None:
        telling = validation_count > 1
        smoothing = _asked_for(observed[telling], validation_count[telling], pooled)
    error = np.full(len(known), pooled)
    if np.isfinite(smoothing):
        smoothed = wrong + smoothing * pooled, validation_count + smoothing
        error = np.divide(*smoothed, out=error, where=smoothed[1] > 0)
    frequency = count / max(len(groups), 1)
    absent = count == 0
    tau = np.where(absent, 0.0, noise_frequency_tau(error, np.where(absent, 1.0, frequency)))

    if np.any(unvalidated := ~validated & ~absent):
        warnings.warn(
            f"groups {known[unvalidated].tolist()} have no validation example: their noise is "
            f"taken to be the pooled error, {pooled:.3f}",
            stacklevel=2,
        )
    if np.any(absent):
        warnings.warn(
            f"groups {known[absent].tolist()} have no training example: their tau is 0",
            stacklevel=2,
        )
    return GroupStatistics(
        known,
        count.astype(np.int64),
        validation_count.astype(np.int64),
        observed,
        np.where(validated, spread, np.nan),
        error,
        frequency,
        tau,
    )


def _asked_for(
    errors: Float[np.ndarray, " G"], counts: Float[np.ndarray, " G"], pooled: float
) -> float:
    """How many imaginary examples the groups ask for: infinitely many where they are alike."""
    chance = pooled * (1 - pooled)
    if chance == 0:  # all are right, or all wrong
        return 0.0
    if len(errors) < 2:
        return np.inf
    excess = np.sum(counts * (errors - pooled) ** 2) - (len(errors) - 1) * chance
    if excess <= 0:
        return np.inf
    share = counts.sum() - np.sum(counts**2) / counts.sum() - (len(errors) - 1)
    return max(0.0, float(chance * share / excess) - 1)


def noise_frequency_tau(noise, frequency):
    r"""Computes :math:`\tau = I^{3/5} / q^{2/5}` elementwise, of NumPy or JAX arrays.

    Args:
      noise: I, not negative.
      frequency: q, positive.
    """
    return noise ** (3 / 5) / frequency ** (2 / 5)


def scale_to_maximum(tau: Float[np.ndarray, " G"], maximum: float) -> Float[np.ndarray, " G"]:
    r"""Computes :math:`\lambda \tau` with :math:`\lambda` such that the largest is ``maximum``.

    The paper sets the maximum to 0.1 in all its experiments (appendix B).

    Args:
      tau: ``[G]``, finite and not negative.
      maximum: The largest strength, not negative.

    Returns:
      ``[G]`` strengths; zeros where every tau is 0, with a warning.

    Raises:
      ValueError: if a tau is negative or not finite, or if the maximum is.
    """
    tau = np.asarray(tau, np.float64)
    if tau.ndim != 1:
        raise ValueError(f"tau must have one number per group, shape [G]; got {list(tau.shape)}")
    if not np.all(np.isfinite(tau) & (tau >= 0)):
        raise ValueError(f"tau must be finite and not negative; it is {tau.tolist()}")
    if not (np.isfinite(maximum) and maximum >= 0):
        raise ValueError(f"the maximum strength {maximum} must be finite and not negative")
    largest = tau.max(initial=0.0)
    if largest == 0:
        warnings.warn(
            "every tau is 0, as after a validation without errors: nothing is regularized",
            stacklevel=2,
        )
        return np.zeros_like(tau)
    return maximum * (tau / largest)


def random_strength(strength: Float[np.ndarray, " n"], seed: int) -> Float[np.ndarray, " n"]:
    """Draws strengths uniformly from 0 to twice the mean of ``strength``, whose mean they share.

    The ablation "random" of appendix C of Cao et al. 2021: as much regularization, and no
    knowledge of where.
    """
    return np.random.default_rng(seed).uniform(0, 2 * np.mean(strength), len(strength))


def inverse_strength(strength: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The inverses of strengths, scaled to the same mean.

    The ablation "inverse" of appendix C of Cao et al. 2021: as much regularization, most of
    it where HAR has least.

    Raises:
      ValueError: if a strength is not positive.
    """
    strength = np.asarray(strength, np.float64)
    if not np.all(strength > 0):
        raise ValueError(
            "the inverse of a strength needs it to be positive, and "
            f"{int(np.sum(~(strength > 0)))} of {len(strength)} are not"
        )
    inverse = 1 / strength
    return inverse * (strength.mean() / inverse.mean())


def _ids(name: str, values: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
    values = np.asarray(values)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(
            f"{name} must be integers, shape [n]; got {values.dtype}{list(values.shape)}"
        )
    if values.dtype == np.uint64 and np.any(values > np.iinfo(np.int64).max):
        raise ValueError(f"{name} must fit into int64; the largest is {values.max()}")
    return values.astype(np.int64)


def _sums(ids: np.ndarray, groups: np.ndarray, values: np.ndarray) -> Float[np.ndarray, " G"]:
    return np.bincount(np.searchsorted(ids, groups), weights=values, minlength=len(ids))
