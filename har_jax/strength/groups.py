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

import numpy as np
from jaxtyping import Bool, Float, Integer, Real

from har_jax.strength.statistics import (
    GroupStatistics,
    as_ids,
    checked_errors,
    known_ids,
    statistics_of,
    warn_of_empty,
)


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
    groups = as_ids("groups", groups)
    validation_groups = as_ids("validation_groups", validation_groups)
    if np.shape(validation_errors) != validation_groups.shape:
        raise ValueError(
            f"there are {np.size(validation_errors)} validation errors for "
            f"{validation_groups.size} groups"
        )
    errors = checked_errors(validation_errors, smoothing)
    known = known_ids(groups, validation_groups, ids)
    count = sums_by_group(known, groups, np.ones(len(groups)))
    validation_count = sums_by_group(known, validation_groups, np.ones(len(errors)))
    wrong = sums_by_group(known, validation_groups, errors)
    statistics = statistics_of(
        known,
        count.astype(np.int64),
        validation_count.astype(np.int64),
        wrong,
        errors,
        smoothing,
        count / max(len(groups), 1),
    )
    taken = f"their noise is taken to be the pooled error, {errors.mean():.3f}"
    warn_of_empty(known, statistics.count, statistics.validation_count, taken)
    return statistics


def sums_by_group(
    ids: np.ndarray, groups: np.ndarray, values: np.ndarray
) -> Float[np.ndarray, " G"]:
    """The sum of the values of each group, of ids that ascend."""
    return np.bincount(np.searchsorted(ids, groups), weights=values, minlength=len(ids))
