"""Batches in which rare classes are frequent, as a function of (seed, step)."""

import functools

import numpy as np
from jaxtyping import Float, Int


class ReversedBatches:
    r"""Batches of which each row is drawn by class, then uniformly within the class.

    A class of :math:`n_c` examples is drawn with :math:`P(c) \propto n_{max} / n_c`, one without
    examples never: the sampler of Zhou et al. 2020 (arXiv 1912.02413). Rows are drawn with
    replacement, so that there are no epochs. Called as :class:`har_jax.data.Batches` is.

    Args:
      labels: ``[n]``, integers from 0 on.
      batch_size: B.
      seed: The stream depends on these three and on nothing else.

    Raises:
      ValueError: if there are no labels, or negative ones.

    Example:
      >>> batches = ReversedBatches(np.array([0, 0, 0, 1]), batch_size=1000, seed=0)
      >>> bool(700 < np.sum(batches(0) == 3) < 800)
      True
    """

    def __init__(self, labels: Int[np.ndarray, " n"], batch_size: int, seed: int) -> None:
        if not len(labels) or np.min(labels) < 0:
            raise ValueError("labels must not be negative, and there must be some")
        self._batch_size, self._seed = batch_size, seed
        self._counts = np.bincount(labels)
        self._by_class = np.argsort(labels, kind="stable").astype(np.int32)
        self._first = np.cumsum(self._counts) - self._counts

    def __call__(self, step: int) -> Int[np.ndarray, " B"]:
        """The indices of the examples in the batch of this step, int32."""
        of_class, within = _uniforms(self._seed, step, self._batch_size)
        drawn = reversed_classes(of_class, self._counts)
        place = np.floor(within * self._counts[drawn]).astype(np.int64)
        return self._by_class[self._first[drawn] + place]


def reversed_classes(
    uniforms: Float[np.ndarray, " B"], counts: Int[np.ndarray, " K"]
) -> Int[np.ndarray, " B"]:
    r"""The class of each uniform number: the first whose cumulative weight is at least u times all.

    Weights are :math:`n_{max} / n_c`, of the classes that have examples.

    Args:
      uniforms: u, in [0, 1).
      counts: :math:`n_c`, not all 0.
    """
    present = np.flatnonzero(counts)
    cumulative = np.cumsum(np.max(counts) / counts[present])
    drawn: Int[np.ndarray, " B"] = present[np.searchsorted(cumulative, uniforms * cumulative[-1])]
    return drawn


@functools.lru_cache(maxsize=8)  # of images in files, each row asks for its batch
def _uniforms(seed: int, step: int, size: int) -> Float[np.ndarray, "2 B"]:
    return np.random.default_rng([seed, step]).random((2, size))
