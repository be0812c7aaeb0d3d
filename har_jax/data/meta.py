"""Examples whose labels are known to be right, which some methods learn from beside the others."""

import numpy as np
from jaxtyping import Int

from har_jax.data.examples import DataError


def balanced_split(
    labels: Int[np.ndarray, " n"], size: int, num_classes: int, seed: int
) -> tuple[Int[np.ndarray, " size"], Int[np.ndarray, " rest"]]:
    """Takes as many examples of each class at random, up to one, and leaves the rest.

    Args:
      labels: ``[n]``, in ``[0, K)``.
      size: How many are taken.
      num_classes: K.
      seed: The choice depends on nothing else.

    Returns:
      The indices of what is taken and of the rest, ascending.

    Raises:
      DataError: if there are more classes than are to be taken, or a class would be left empty.
    """
    if size < num_classes:
        raise DataError(
            f"config.data.meta_size={size} is less than one example of each of {num_classes} "
            "classes: take more"
        )
    rng = np.random.default_rng(seed)
    shares = np.full(num_classes, size // num_classes)
    shares[rng.permutation(num_classes)[: size % num_classes]] += 1
    counts = np.bincount(labels, minlength=num_classes)
    if np.any(short := counts <= shares):
        label = int(np.argmax(short))
        raise DataError(
            f"config.data.meta_size={size} takes {shares[label]} examples of each class, and class "
            f"{label} has {counts[label]} in all: take fewer, so that some are left to train on"
        )
    taken = np.concatenate(
        [
            rng.permutation(np.flatnonzero(labels == label))[:share]
            for label, share in enumerate(shares.tolist())
        ]
    )
    return np.sort(taken), np.setdiff1d(np.arange(len(labels)), taken)
