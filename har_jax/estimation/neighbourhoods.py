"""What I and q are of: the neighbourhoods of the training examples."""

import dataclasses
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from har_jax.strength import (
    GroupStatistics,
    group_statistics,
    mixture_statistics,
    neighbour_statistics,
)


class Neighbourhoods(Protocol):
    """G neighbourhoods of n training examples.

    Attributes:
      names: ``G``; none where each example has a neighbourhood of its own.
      ids: ``[n]``, in ``[0, G)``: the one that an example is of, for the most part.
    """

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def ids(self) -> Int[np.ndarray, " n"]: ...

    def statistics(
        self,
        validation: Int[np.ndarray, " m"],
        errors: Float[np.ndarray, " m"],
        smoothing: float | None,
    ) -> GroupStatistics:
        """I, q and tau of each, from the errors of some of the examples."""
        ...

    def per_example(self, values: Float[np.ndarray, " G"]) -> Float[np.ndarray, " n"]:
        """Spreads values of the neighbourhoods over the examples."""
        ...


@dataclasses.dataclass(frozen=True)
class Groups:
    """Every example is of one group.

    Attributes:
      ids: ``[n]``, in ``[0, G)``.
      names: ``G``.
    """

    ids: Int[np.ndarray, " n"]
    names: tuple[str, ...]

    def statistics(
        self,
        validation: Int[np.ndarray, " m"],
        errors: Float[np.ndarray, " m"],
        smoothing: float | None,
    ) -> GroupStatistics:
        every = np.arange(len(self.names))
        return group_statistics(
            self.ids, self.ids[validation], errors, ids=every, smoothing=smoothing
        )

    def per_example(self, values: Float[np.ndarray, " G"]) -> Float[np.ndarray, " n"]:
        return values[self.ids]


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Every example is of several groups, in part.

    Attributes:
      shares: ``[n, G]``; those of an example add up to 1.
      names: ``G``.
    """

    shares: Float[np.ndarray, "n G"]
    names: tuple[str, ...]

    @property
    def ids(self) -> Int[np.ndarray, " n"]:
        return self.shares.argmax(axis=1)

    def statistics(
        self,
        validation: Int[np.ndarray, " m"],
        errors: Float[np.ndarray, " m"],
        smoothing: float | None,
    ) -> GroupStatistics:
        return mixture_statistics(self.shares, self.shares[validation], errors, smoothing=smoothing)

    def per_example(self, values: Float[np.ndarray, " G"]) -> Float[np.ndarray, " n"]:
        return self.shares @ values


@dataclasses.dataclass(frozen=True)
class Neighbours:
    """Every example has the nearest ones around it.

    Attributes:
      features: ``[n, d]``.
      spaces: ``[n]``, in which space each lies.
      neighbours: How many.
    """

    features: Float[np.ndarray, "n d"]
    spaces: Int[np.ndarray, " n"]
    neighbours: int
    names: tuple[str, ...] = ()

    @property
    def ids(self) -> Int[np.ndarray, " n"]:
        return np.arange(len(self.features))

    def statistics(
        self,
        validation: Int[np.ndarray, " m"],
        errors: Float[np.ndarray, " m"],
        smoothing: float | None,
    ) -> GroupStatistics:
        return neighbour_statistics(
            self.features,
            validation,
            errors,
            neighbours=self.neighbours,
            spaces=self.spaces,
            smoothing=smoothing,
        )

    def per_example(self, values: Float[np.ndarray, " G"]) -> Float[np.ndarray, " n"]:
        return values
