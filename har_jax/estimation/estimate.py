"""From what models say of examples that they did not see to I, q and tau of every example."""

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from har_jax.estimation.neighbourhoods import Neighbourhoods
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.strength import GroupStatistics, group_statistics

_FEW, _MANY = 10, 100  # examples
_KEPT_DOWN = 0.8  # the share of the largest strength that is worth a word


class Estimated(NamedTuple):
    """What is estimated of n training examples and their G neighbourhoods.

    Attributes:
      statistics: Of each neighbourhood.
      names: ``G``; none where each example has a neighbourhood of its own.
      shown: ``[n]``, the noise that each example shows; NaN of those that do not count.
      group: ``[n]``, the neighbourhood that each is of, for the most part.
      noise: ``[n]``, I of each example's neighbourhood.
      frequency: ``[n]``, q.
      tau: ``[n]``.
      temperatures: By fold, of the probabilities; none where no probabilities are read.
    """

    statistics: GroupStatistics
    names: tuple[str, ...]
    shown: Float[np.ndarray, " n"]
    group: Int[np.ndarray, " n"]
    noise: Float[np.ndarray, " n"]
    frequency: Float[np.ndarray, " n"]
    tau: Float[np.ndarray, " n"]
    temperatures: Mapping[str, float]


def estimate(
    neighbourhoods: Neighbourhoods,
    noise: Float[np.ndarray, " n"],
    smoothing: float | None,
    temperatures: Mapping[str, float],
) -> Estimated:
    """Estimates the noise and the frequency of every neighbourhood, and of every example's.

    Args:
      neighbourhoods: Of the n training examples.
      noise: ``[n]``, that each shows, in [0, 1]; NaN of those that do not count.
      smoothing: As :func:`har_jax.group_statistics` takes it.
      temperatures: Of the probabilities that these are from.

    Raises:
      ValueError: if no example counts.

    Warns:
      UserWarning: if a small group keeps the strengths of all others down, and as
        :func:`har_jax.group_statistics` does.
    """
    validation = np.flatnonzero(~np.isnan(noise))
    with warnings.catch_warnings():  # of classes without examples the data have told
        warnings.filterwarnings("ignore", r"groups \[.*\] have no training example")
        statistics = neighbourhoods.statistics(validation, noise[validation], smoothing)
    if names := neighbourhoods.names:
        _warn_of_small_groups(statistics, names)
    spread = neighbourhoods.per_example
    return Estimated(
        statistics,
        names,
        shown=noise,
        group=neighbourhoods.ids,
        noise=spread(statistics.error),
        frequency=spread(statistics.frequency),
        tau=spread(statistics.tau),
        temperatures=temperatures,
    )


def errors_by_group(
    said: OutOfSample,
    labels: Int[np.ndarray, " n"],
    groups: Int[np.ndarray, " n"],
    count: int,
) -> tuple[GroupStatistics, dict[str, np.ndarray]]:
    """How often labels are contradicted out of sample, in every group of the data: to be shown.

    Args:
      said: Of some or all of the n training examples.
      labels: As trained on.
      groups: In ``[0, G)``.
      count: G.

    Returns:
      The statistics, which are not smoothed, and ``[F, G]`` of each fold by itself:
      ``observed_error``, ``standard_error`` and ``validation_count``.

    Warns:
      UserWarning: if a model errs as often as one that always names the most frequent class.
    """
    read = said.prediction >= 0
    index, fold = said.index[read], said.fold[read]
    wrong = said.prediction[read] != labels[index]
    if doubt := reason_to_doubt(said, labels):
        warnings.warn(doubt, stacklevel=2)
    of = lambda rows: group_statistics(
        groups, groups[index[rows]], wrong[rows], ids=np.arange(count)
    )
    with warnings.catch_warnings():  # what matters is told of where tau is estimated
        warnings.filterwarnings("ignore", r"groups \[.*\] have no (training|validation) example")
        folds = [of(fold == part) for part in np.unique(fold)]
        whole = of(np.ones(len(index), bool))
    names = ("observed_error", "standard_error", "validation_count")
    return whole, {name: np.stack([getattr(part, name) for part in folds]) for name in names}


def reason_to_doubt(said: OutOfSample, labels: Int[np.ndarray, " n"]) -> str | None:
    """Why predictions tell nothing of noise: they agree with the labels no more than by chance.

    Args:
      said: Of some or all of the n training examples.
      labels: As trained on.

    Returns:
      A sentence with what to do, or None.
    """
    read = said.prediction >= 0
    own, predictions = labels[said.index[read]], said.prediction[read]
    if not len(own):
        return None
    share = float(np.mean(own != predictions))
    guessing = 1 - float(np.bincount(labels).max()) / len(labels)
    count = max(own.max(), predictions.max()) + 1
    shares = [np.bincount(ids, minlength=count) / len(ids) for ids in (own, predictions)]
    chance = 1 - float(np.sum(np.prod(shares, axis=0)))  # of the same rows in any order
    least = chance - 3 * float(np.sqrt(chance * (1 - chance) / len(own)))
    if share >= guessing:
        than = f"by always naming the most frequent class {100 * guessing:.0f}%"
    elif len(own) >= _MANY and share > least:
        than = f"in a random order {100 * chance:.0f}%"
    else:
        return None
    return (
        f"of what was held out {100 * share:.0f}% is predicted wrongly, and {than} would be: what "
        "is found of noise means little; train the models longer (config.pretrain.epochs), or with "
        "another learning rate, or take better probabilities, whose rows are in the order of "
        "labels.npy"
    )


def _warn_of_small_groups(statistics: GroupStatistics, names: Sequence[str]) -> None:
    """Warns where the largest tau, by which all are scaled, is that of groups of few examples."""
    small = (statistics.count > 0) & (statistics.count < _FEW)
    others = statistics.tau[~small].max(initial=0.0)
    leading = np.flatnonzero(small & (statistics.tau > others / _KEPT_DOWN))
    if others == 0 or not len(leading):
        return
    leading = leading[np.argsort(-statistics.tau[leading], kind="stable")]
    wrong = np.nan_to_num(statistics.observed_error) * statistics.validation_count
    shown = ", ".join(
        f"{names[group]!r} ({statistics.count[group]} examples, of "
        f"{statistics.validation_count[group]} held out "
        f"{wrong[group]:.0f} wrong)"
        for group in leading[:3]
    )
    more = f" and {len(leading) - 3} more" if len(leading) > 3 else ""
    warnings.warn(
        f"small groups keep the strengths of all others down: {shown}{more}, have the largest tau, "
        "so that none of the others gets more than "
        f"{100 * others / statistics.tau.max():.0f}% of config.regularizer.strength: join them "
        "with others, leave them out, or raise that strength",
        stacklevel=3,
    )
