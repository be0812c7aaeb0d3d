"""Random splits that keep the classes' shares."""

import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from har_jax.data.examples import DataError

FEWER_THAN_FOLDS = r"classes \[.*\] have \[.*\] examples, fewer than the"
"""How the warning of :func:`stratified_folds` begins, as a regular expression."""


def stratified_split(
    labels: Int[np.ndarray, " n"], first_size: int, seed: int
) -> tuple[Int[np.ndarray, " first"], Int[np.ndarray, " second"]]:
    """Splits examples at random in two, with every class split in the same proportion.

    The parts of a class are rounded by largest remainders, so that the sizes come out
    exactly. A class of one example falls into one of the two parts.

    Args:
      labels: ``[n]`` integers.
      first_size: The size of the first part.
      seed: The split depends on nothing else.

    Returns:
      The indices of the first and of the second part, ascending.

    Raises:
      DataError: if ``first_size`` leaves one of the parts without examples.

    Warns:
      UserWarning: if a class is missing from one of the parts.
    """
    if not 0 < first_size < len(labels):
        raise DataError(
            f"a split of {len(labels)} examples cannot have {first_size} in its first part: "
            "both parts need some"
        )
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
    if np.any(one_sided := (taken == 0) | (taken == counts)):
        warnings.warn(
            f"classes {classes[one_sided].tolist()} are in one part of the split only: they have "
            f"{counts[one_sided].tolist()} examples",
            stacklevel=2,
        )
    second = np.setdiff1d(np.arange(len(labels)), first)
    return np.sort(first), second


def stratified_folds(
    labels: Int[np.ndarray, " n"], folds: int, seed: int
) -> Sequence[Int[np.ndarray, " m"]]:
    """Splits examples at random into parts of one size, as far as that goes, each with its share.

    Args:
      labels: ``[n]`` integers.
      folds: How many parts.
      seed: The parts depend on nothing else.

    Returns:
      The indices of each part, ascending.

    Raises:
      DataError: if no class has as many examples as there are to be parts.

    Warns:
      UserWarning: if a class has fewer: some parts have none of it.
    """
    from sklearn.model_selection import StratifiedKFold

    counts = np.bincount(labels)
    if counts.max() < folds:
        raise DataError(
            f"{folds} folds are more than the {counts.max()} examples of the largest class"
        )
    if len(few := np.flatnonzero((counts > 0) & (counts < folds))):
        warnings.warn(
            f"classes {few.tolist()} have {counts[few].tolist()} examples, fewer than the {folds} "
            "folds: some have none of them",
            stacklevel=2,
        )
    with warnings.catch_warnings():
        # The same, of the smallest class only.
        warnings.filterwarnings("ignore", "The least populated class in y", module="sklearn")
        splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels)
        return [held_out for _, held_out in splits]
