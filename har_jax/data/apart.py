"""Random parts of a data set that keep equal examples together, and groups where one asks."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int

from har_jax.data.examples import Examples
from har_jax.data.splits import stratified_folds, stratified_split


@dataclasses.dataclass(frozen=True)
class Parts:
    """How examples are put into parts that are to be apart.

    Attributes:
      keep_groups_whole: Whether groups come whole into one part, as equal examples always do.
    """

    keep_groups_whole: bool = False

    def split(
        self, examples: Examples, first_size: int, seed: int
    ) -> tuple[Int[np.ndarray, " first"], Int[np.ndarray, " second"]]:
        """The indices of two parts, as :func:`har_jax.data.stratified_split` makes them."""

        def make(labels: np.ndarray, groups: np.ndarray | None) -> Sequence[np.ndarray]:
            size = first_size
            if len(labels) < len(examples):  # one of each that are equal
                size = round(first_size * len(labels) / len(examples))
                size = min(max(size, 1), max(len(labels) - 1, 1))
            return stratified_split(labels, size, seed, groups)

        first, second = self._apart(examples, make)
        return first, second

    def folds(self, examples: Examples, folds: int, seed: int) -> Sequence[Int[np.ndarray, " m"]]:
        """The indices of several parts, as :func:`har_jax.data.stratified_folds` makes them."""
        return self._apart(
            examples, lambda labels, groups: stratified_folds(labels, folds, seed, groups)
        )

    def _apart(
        self,
        examples: Examples,
        make: Callable[[np.ndarray, np.ndarray | None], Sequence[np.ndarray]],
    ) -> Sequence[np.ndarray]:
        """Parts that ``make`` makes of labels and, where there are some, of groups."""
        if self.keep_groups_whole:
            return make(examples.labels, _units(examples))
        if examples.content is None or not examples.has_equal:
            return make(examples.labels, None)
        _, first, of_each = np.unique(examples.content, return_index=True, return_inverse=True)
        parts = make(examples.labels[first], None)
        return [np.flatnonzero(np.isin(of_each, part)) for part in parts]


def _units(examples: Examples) -> Int[np.ndarray, " n"]:
    """What is kept whole: groups, joined where they have equal examples."""
    groups = np.unique(examples.group_ids(), return_inverse=True)[1]
    if examples.content is None or not examples.has_equal:
        return groups
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    contents = np.unique(examples.content, return_inverse=True)[1] + groups.max() + 1
    count = int(contents.max()) + 1
    graph = coo_array((np.ones(len(groups), bool), (groups, contents)), shape=(count, count))
    _, units = connected_components(graph, directed=False)
    return units[groups]
