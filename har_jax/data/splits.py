"""Random splits that keep the classes' shares."""

import fractions
import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from har_jax.data.examples import DataError
from har_jax.system.terminal import brief

_MOST_PARTS = 20  # that groups are dealt out to, to take some of them

FEWER_THAN_FOLDS = r"classes \[.*\] have \[.*\] examples, fewer than the"
IN_ONE_PART = r"classes \[.*\] are in one part of the split only"
"""How the warnings of :func:`stratified_folds` and :func:`stratified_split` begin, as regular
expressions."""


def stratified_split(
    labels: Int[np.ndarray, " n"],
    first_size: int,
    seed: int,
    groups: Int[np.ndarray, " n"] | None = None,
) -> tuple[Int[np.ndarray, " first"], Int[np.ndarray, " second"]]:
    """Splits examples at random in two, with every class split in the same proportion.

    The parts of a class are rounded by largest remainders, so that the sizes come out
    exactly. A class of one example falls into one of the two parts.

    Args:
      labels: ``[n]`` integers.
      first_size: The size of the first part.
      seed: The split depends on nothing else.
      groups: ``[n]`` integers. Where given, each group comes whole into one of the parts: sizes
        and proportions are then as near to those asked for as scikit-learn's
        ``StratifiedGroupKFold`` brings them.

    Returns:
      The indices of the first and of the second part, ascending.

    Raises:
      DataError: if ``first_size`` leaves one of the parts without examples, or there is one group
        only.

    Warns:
      UserWarning: if a class is missing from one of the parts.
    """
    if not 0 < first_size < len(labels):
        raise DataError(
            f"a split of {len(labels)} examples cannot have {first_size} in its first part: "
            "both parts need some"
        )
    if groups is not None:
        return _split_of_groups(labels, first_size, seed, groups)
    rng = np.random.default_rng(seed)
    classes, counts = np.unique(labels, return_counts=True)
    shares = counts * (first_size / len(labels))
    taken = np.floor(shares).astype(int)
    # Ties between remainders are broken at random, not by the order of the classes.
    order = np.lexsort((rng.permutation(len(classes)), taken - shares))
    taken[order[: first_size - taken.sum()]] += 1

    first = np.concatenate(
        [
            rng.permutation(np.flatnonzero(labels == label))[:size]
            for label, size in zip(classes, taken, strict=True)
        ]
    )
    _warn_of_one_sided(classes, taken, counts)
    second = np.setdiff1d(np.arange(len(labels)), first)
    return np.sort(first), second


def _split_of_groups(
    labels: np.ndarray, first_size: int, seed: int, groups: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    most = min(len(np.unique(groups)), int(np.bincount(labels).max()), _MOST_PARTS)
    if most < 2:
        raise DataError(
            f"{len(np.unique(groups))} groups and {len(labels)} examples are too few for two parts "
            "that keep groups whole: leave config.data.keep_groups_whole out"
        )
    # The second part is some of as few folds as make its share, since few are the most alike.
    share = fractions.Fraction(len(labels) - first_size, len(labels)).limit_denominator(most)
    parts = max(share.denominator, 2)
    taken = min(max(round(share * parts), 1), parts - 1)
    second = np.sort(np.concatenate(_folds(labels, parts, seed, groups)[:taken]))
    first = np.setdiff1d(np.arange(len(labels)), second)
    classes, counts = np.unique(labels, return_counts=True)
    in_first = np.bincount(labels[first], minlength=classes[-1] + 1)[classes]
    _warn_of_one_sided(classes, in_first, counts)
    return first, second


def _warn_of_one_sided(classes: np.ndarray, taken: np.ndarray, counts: np.ndarray) -> None:
    if np.any(one_sided := (taken == 0) | (taken == counts)):
        warnings.warn(
            f"classes {brief(classes[one_sided].tolist())} are in one part of the split only: they "
            f"have {brief(counts[one_sided].tolist())} examples",
            stacklevel=3,
        )


def stratified_folds(
    labels: Int[np.ndarray, " n"],
    folds: int,
    seed: int,
    groups: Int[np.ndarray, " n"] | None = None,
) -> Sequence[Int[np.ndarray, " m"]]:
    """Splits examples at random into parts of one size, as far as that goes, each with its share.

    Args:
      labels: ``[n]`` integers.
      folds: How many parts.
      seed: The parts depend on nothing else.
      groups: ``[n]`` integers. Where given, each group comes whole into one of the parts.

    Returns:
      The indices of each part, ascending.

    Raises:
      DataError: if no class has as many examples as there are to be parts, or there are too few
        groups.

    Warns:
      UserWarning: if a class has fewer: some parts have none of it.
    """
    counts = np.bincount(labels)
    if counts.max() < folds:
        raise DataError(
            f"{folds} folds are more than the {counts.max()} examples of the largest class"
        )
    if len(few := np.flatnonzero((counts > 0) & (counts < folds))):
        warnings.warn(
            f"classes {brief(few.tolist())} have {brief(counts[few].tolist())} examples, fewer "
            f"than the {folds} folds: some have none of them",
            stacklevel=2,
        )
    return _folds(labels, folds, seed, groups)


def _folds(
    labels: np.ndarray, folds: int, seed: int, groups: np.ndarray | None
) -> list[np.ndarray]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    if groups is not None and len(np.unique(groups)) < folds:
        raise DataError(
            f"{len(np.unique(groups))} groups that are kept whole do not make {folds} parts: take "
            "fewer, or leave config.data.keep_groups_whole out"
        )
    with warnings.catch_warnings():
        # Of the smallest class only, where all are told of.
        warnings.filterwarnings("ignore", "The least populated class in y", module="sklearn")
        splits = kind(folds, shuffle=True, random_state=seed).split(labels, labels, groups)
        return [held_out for _, held_out in splits]
