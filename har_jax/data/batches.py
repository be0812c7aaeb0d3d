"""Batches as a function of (seed, step)."""

import functools

import numpy as np
from jaxtyping import Int


class Batches:
    """The batches of an endless stream of epochs, each a fresh permutation of all examples.

    Batches are always full: one that reaches the end of an epoch goes on in the next. So
    every example is seen equally often, whatever the batch size, also one that is larger
    than the data.

    Args:
      size: The number of examples, n.
      batch_size: B.
      seed: The stream depends on these three and on nothing else.

    Example:
      >>> batches = Batches(size=4, batch_size=3, seed=0)
      >>> sorted([*batches(0).tolist(), *batches(1)[:1].tolist()])
      [0, 1, 2, 3]
    """

    def __init__(self, size: int, batch_size: int, seed: int) -> None:
        self._size, self._batch_size, self._seed = size, batch_size, seed

    def __call__(self, step: int) -> Int[np.ndarray, " B"]:
        """The indices of the examples in the batch of this step, int32."""
        first, last = step * self._batch_size, (step + 1) * self._batch_size
        epochs = range(first // self._size, (last - 1) // self._size + 1)
        return np.concatenate(
            [
                _permutation(self._size, self._seed, epoch)[
                    max(0, first - epoch * self._size) : last - epoch * self._size
                ]
                for epoch in epochs
            ]
        )


@functools.lru_cache(maxsize=4)
def _permutation(size: int, seed: int, epoch: int) -> Int[np.ndarray, " n"]:
    return np.random.default_rng([seed, epoch]).permutation(size).astype(np.int32)
