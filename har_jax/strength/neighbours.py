"""Every example's own neighbourhood, in a space of features."""

import operator
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Integer, Real

from har_jax.strength.statistics import GroupStatistics, as_ids, checked_errors, statistics_of

_BLOCK = 2**24  # similarities that are in memory at once


def neighbour_statistics(
    features: Float[np.ndarray, "n d"],
    validation: Integer[np.ndarray, " m"],
    validation_errors: Real[np.ndarray, " m"] | Bool[np.ndarray, " m"],
    *,
    neighbours: int,
    spaces: Integer[np.ndarray, " n"] | None = None,
    smoothing: float | None = None,
) -> GroupStatistics:
    r"""Estimates I and q around every example, and :math:`\tau`.

    Examples are as near as the angle between their features is small. I is the mean error of the
    nearest validation examples, the example itself among them where it is one; q the share of all
    examples of its space within one and the same angle of it, the one within which the median
    example has as many neighbours. So both are of the inputs' own density, as section 2.3 of Cao et
    al. 2021 has them, and no class is asked for.

    Args:
      features: ``[n, d]``, of every training example, such as a network's last but one layer.
      validation: ``[m]``, which examples are validation examples; each once.
      validation_errors: ``[m]``, numbers in [0, 1].
      neighbours: How many are looked at; all of a space that has fewer.
      spaces: ``[n]``, in which space each example lies, where features are of several networks,
        each with a space of its own.
      smoothing: As :func:`har_jax.group_statistics` takes it: of each neighbourhood.

    Returns:
      The :class:`har_jax.GroupStatistics` of n neighbourhoods, each of its example.

    Raises:
      ValueError: if shapes do not fit, features are not finite, a space has no validation example,
        a validation example is none of the n or comes twice, neighbours is not positive, errors are
        outside of [0, 1], or smoothing is negative or not finite.

    Example:
      >>> angle = np.array([0.0, 0.1, 0.25, 2.0])
      >>> features = np.stack([np.cos(angle), np.sin(angle)], axis=1)
      >>> s = neighbour_statistics(features, np.arange(4), [1, 1, 0, 0], neighbours=2, smoothing=0)
      >>> s.error, s.frequency
      (array([1. , 1. , 0.5, 0. ]), array([0.5 , 0.5 , 0.25, 0.25]))
    """
    features = np.asarray(features, np.float32)
    validation = as_ids("validation", validation)
    if features.ndim != 2:
        raise ValueError(f"features must be of shape [n, d]; got {list(features.shape)}")
    if not np.all(finite := np.isfinite(features).all(axis=1)):
        raise ValueError(f"the features of example {np.argmin(finite)} are not finite")
    if np.shape(validation_errors) != validation.shape:
        raise ValueError(
            f"there are {np.size(validation_errors)} validation errors for {validation.size} "
            "validation examples"
        )
    errors = checked_errors(validation_errors, smoothing)
    if operator.index(neighbours) < 1:
        raise ValueError(f"neighbours={neighbours} must be positive")
    count = len(features)
    _refuse_others(validation, count)
    known = np.full(count, np.nan)
    known[validation] = errors
    of_space = np.zeros(count, np.int64) if spaces is None else as_ids("spaces", spaces)
    if len(of_space) != count:
        raise ValueError(f"there are spaces of {len(of_space)} examples for {count} features")
    frequency, wrong, looked_at = np.empty(count), np.empty(count), np.empty(count)
    for space in np.unique(of_space):
        rows = np.flatnonzero(of_space == space)
        if np.all(np.isnan(known[rows])):
            raise ValueError(f"space {space} has no validation example")
        found = _of_space(unit_rows(features[rows]), known[rows], neighbours)
        frequency[rows], wrong[rows], looked_at[rows] = found
    return statistics_of(
        np.arange(count), frequency * count, looked_at, wrong, errors, smoothing, frequency
    )


def _refuse_others(validation: Integer[np.ndarray, " m"], count: int) -> None:
    if np.any(outside := (validation < 0) | (validation >= count)):
        raise ValueError(
            f"validation has {validation[np.argmax(outside)]}, and there are {count} examples, "
            "from 0 on"
        )
    numbers, times = np.unique(validation, return_counts=True)
    if np.any(times > 1):
        raise ValueError(f"validation has {numbers[np.argmax(times)]} more than once")


def _of_space(
    unit: Float[np.ndarray, "n d"], errors: Float[np.ndarray, " n"], neighbours: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], int]:
    """The shares within the angle, the sums of the nearest errors, and of how many these are."""
    validation = np.flatnonzero(~np.isnan(errors))
    around, looked_at = min(neighbours, len(unit)), min(neighbours, len(validation))
    wrong, kth = np.empty(len(unit)), np.empty(len(unit), np.float32)
    for rows, near in _similarities(unit):
        kth[rows] = -np.partition(-near, around - 1, axis=1)[:, around - 1]
        nearest = np.argpartition(-near[:, validation], looked_at - 1, axis=1)[:, :looked_at]
        wrong[rows] = errors[validation[nearest]].sum(axis=1)
    within = np.median(kth)
    inside = [np.sum(near >= within, axis=1) for _, near in _similarities(unit)]
    return np.maximum(np.concatenate(inside), 1) / len(unit), wrong, looked_at


def _similarities(
    unit: Float[np.ndarray, "n d"],
) -> Iterator[tuple[Integer[np.ndarray, " b"], Float[np.ndarray, "b n"]]]:
    """The cosines of the angles between some examples and all, and which examples these are."""
    step = max(1, _BLOCK // len(unit))
    for first in range(0, len(unit), step):
        rows = np.arange(first, min(first + step, len(unit)))
        yield rows, unit[rows] @ unit.T


def unit_rows(features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Rows of length one; those of length 0 stay."""
    largest = np.abs(features).max(axis=1, keepdims=True, initial=0)
    # By a power of two, which rounds nothing: squares of what is left neither vanish nor overflow.
    features = np.ldexp(features, -np.frexp(largest)[1])
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(lengths > 0, lengths, 1)
