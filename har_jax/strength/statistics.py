"""What is known of groups, and the estimates that all kinds of groups have in common."""

import dataclasses
import warnings

import numpy as np
from jaxtyping import Float, Integer, Real

from har_jax.strength.scaling import noise_frequency_tau


class OfGroups:
    """What is known of groups whose ids ascend.

    Attributes:
      groups: ``[G]`` ids.
    """

    groups: Integer[np.ndarray, " G"]

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
        known, groups, values = self.groups, as_ids("groups", groups), np.asarray(values)
        if values.shape != known.shape:
            raise ValueError(f"{values.shape} values are not one for each of {len(known)} groups")
        index = np.minimum(np.searchsorted(known, groups), len(known) - 1)
        if np.any(unknown := known[index] != groups):
            first = int(np.argmax(unknown))
            raise ValueError(
                f"example {first} is of group {groups[first]}, which has no statistics"
            )
        return values[index]


@dataclasses.dataclass(frozen=True)
class GroupStatistics(OfGroups):
    """What is known of each of G groups, and what follows.

    Attributes:
      groups: ``[G]`` ids, ascending.
      count: ``[G]``, training examples.
      validation_count: ``[G]``, validation examples. Of groups that overlap, both are the sums of
        examples' shares.
      observed_error: ``[G]``, the share e of validation examples that are wrong; NaN where there
        are none.
      standard_error: ``[G]``, of it: the standard deviation of its posterior under a uniform prior,
        :math:`(p (1 - p) / (m + 3))^{1/2}` with :math:`p = (m e + 1) / (m + 2)`, for m validation
        examples that are right or wrong. Not 0 where all of few are right, as
        :math:`(e (1 - e) / m)^{1/2}` is, which it comes to for many. NaN where there are none.
        Where errors are probabilities, m are as many right or wrong ones as would tell as much, see
        :func:`worth`.
      error: ``[G]``, I: the observed error, smoothed.
      frequency: ``[G]``, q, the share of the training set.
      tau: ``[G]``, :math:`I^{3/5} / q^{2/5}`.
    """

    groups: Integer[np.ndarray, " G"]
    count: Real[np.ndarray, " G"]
    validation_count: Real[np.ndarray, " G"]
    observed_error: Float[np.ndarray, " G"]
    standard_error: Float[np.ndarray, " G"]
    error: Float[np.ndarray, " G"]
    frequency: Float[np.ndarray, " G"]
    tau: Float[np.ndarray, " G"]


def known_ids(
    groups: Integer[np.ndarray, " n"],
    validation_groups: Integer[np.ndarray, " m"],
    ids: Integer[np.ndarray, " G"] | None,
) -> Integer[np.ndarray, " G"]:
    """All groups there are, ascending: ``ids``, or those that occur.

    Raises:
      ValueError: if one occurs that is not in ``ids``.
    """
    seen = np.union1d(groups, validation_groups)
    known = seen if ids is None else np.unique(as_ids("ids", ids))
    if missing := sorted(set(seen.tolist()) - set(known.tolist())):
        raise ValueError(f"groups {missing} occur among the examples but not in ids")
    return known


def statistics_of(
    groups: Integer[np.ndarray, " G"],
    count: Real[np.ndarray, " G"],
    validation_count: Real[np.ndarray, " G"],
    wrong: Float[np.ndarray, " G"],
    errors: Float[np.ndarray, " m"],
    smoothing: float | None,
    frequency: Float[np.ndarray, " G"],
    *,
    independent: Float[np.ndarray, " G"] | None = None,
) -> GroupStatistics:
    """The statistics of groups of any kind, from their sums.

    Args:
      groups: ``[G]`` ids, ascending.
      count: ``[G]``, training examples.
      validation_count: ``[G]``, validation examples.
      wrong: ``[G]``, the sums of their errors.
      errors: ``[m]``, of all validation examples.
      smoothing: As :func:`har_jax.group_statistics` takes it.
      frequency: ``[G]``, q.
      independent: ``[G]``, as how many validation examples of one group alone those count by whom
        uncertainty goes; by default ``validation_count``.
    """
    pooled, validated = errors.mean(), validation_count > 0
    counted = np.where(validated, validation_count, 1)
    observed = np.where(validated, wrong / counted, np.nan)
    each = worth(errors) * (1.0 if independent is None else independent / counted)
    telling, told = each * validation_count, each * wrong
    likely = (told + 1) / (telling + 2)
    spread = np.sqrt(likely * (1 - likely) / (telling + 3))
    if smoothing is None:
        several = telling > 1
        added = _asked_for(observed[several], telling[several], pooled)
    else:
        added, telling, told = smoothing, validation_count, wrong
    error = smoothed(told, telling, added, pooled)
    absent = count == 0
    tau = np.where(absent, 0.0, noise_frequency_tau(error, np.where(absent, 1.0, frequency)))
    return GroupStatistics(
        groups,
        count,
        validation_count,
        observed,
        np.where(validated, spread, np.nan),
        error,
        frequency,
        tau,
    )


def smoothed(
    sums: Float[np.ndarray, " G"], counts: Real[np.ndarray, " G"], added: float, pooled: float
) -> Float[np.ndarray, " G"]:
    """The mean of each group, to which so many of the pooled mean are added.

    That is the pooled one where they are infinitely many, or there is nothing else.
    """
    means = np.full(len(sums), pooled)
    if np.isfinite(added):
        whole = counts + added
        means = np.divide(sums + added * pooled, whole, out=means, where=whole > 0)
    return means


def worth(errors: Float[np.ndarray, " m"]) -> float:
    r"""How many examples that are right or wrong tell as much as one of these errors.

    That is :math:`p (1 - p) / v` with their mean p and their variance v: 1 of those that are right
    or wrong, more of probabilities, which vary less.

    Args:
      errors: ``[m]``, in [0, 1].
    """
    mean, variance = errors.mean(), errors.var()
    if np.all((errors == 0) | (errors == 1)) or variance == 0:
        return 1.0
    return float(mean * (1 - mean) / variance)


def checked_errors(errors: Real[np.ndarray, " m"], smoothing: float | None) -> np.ndarray:
    """Errors in float64.

    Raises:
      ValueError: if there are none, some are outside of [0, 1], or smoothing is negative or not
        finite.
    """
    errors = np.asarray(errors, np.float64)
    if not errors.size:
        raise ValueError("there are no validation examples to estimate the noise from")
    if not np.all((errors >= 0) & (errors <= 1)):
        bad = int(np.argmin((errors >= 0) & (errors <= 1)))
        raise ValueError(f"validation error {errors[bad]} of example {bad} is not in [0, 1]")
    check_smoothing(smoothing)
    return errors


def check_smoothing(smoothing: float | None) -> None:
    """Raises ValueError if smoothing is negative or not finite."""
    if smoothing is not None and not (np.isfinite(smoothing) and smoothing >= 0):
        raise ValueError(f"smoothing={smoothing} must be finite and not negative")


def as_ids(name: str, values: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
    """Ids in int64.

    Raises:
      ValueError: if they are no integers, or do not fit.
    """
    values = np.asarray(values)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(
            f"{name} must be integers, shape [n]; got {values.dtype}{list(values.shape)}"
        )
    if values.dtype == np.uint64 and np.any(values > np.iinfo(np.int64).max):
        raise ValueError(f"{name} must fit into int64; the largest is {values.max()}")
    return values.astype(np.int64)


def warn_of_empty(
    groups: Integer[np.ndarray, " G"],
    count: Real[np.ndarray, " G"],
    validation_count: Real[np.ndarray, " G"],
    taken: str,
) -> None:
    """Warns of groups that have no validation or no training example.

    Args:
      groups: ``[G]`` ids.
      count: ``[G]``, training examples.
      validation_count: ``[G]``, validation examples.
      taken: What their noise is taken to be.
    """
    absent = count == 0
    if np.any(unvalidated := (validation_count == 0) & ~absent):
        warnings.warn(
            f"groups {groups[unvalidated].tolist()} have no validation example: {taken}",
            stacklevel=3,
        )
    if np.any(absent):
        warnings.warn(
            f"groups {groups[absent].tolist()} have no training example: their tau is 0",
            stacklevel=3,
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
