"""Functions that are constant on intervals: section 2.2's groups."""

import dataclasses

import numpy as np
from jaxtyping import Float


@dataclasses.dataclass(frozen=True)
class Steps:
    """A positive function on an interval that is constant on each of G parts of it.

    Attributes:
      values: ``[G]``, positive and finite.
      edges: ``[G + 1]``, ascending: where the parts begin and end. Parts of [0, 1] that are equally
        long by default.

    Raises:
      ValueError: if values are not positive and finite, or edges do not ascend or do not fit them.

    Example:
      >>> rho = Steps([1.0, 4.0])
      >>> rho(np.array([0.2, 0.5, 0.9])), rho.integral(np.array([0.5, 1.0]))
      (array([1., 4., 4.]), array([0.5, 2.5]))
    """

    values: Float[np.ndarray, " G"]
    edges: Float[np.ndarray, " G+1"] | None = None

    def __post_init__(self) -> None:
        values = np.atleast_1d(np.asarray(self.values, np.float64))
        edges = self.edges
        edges = np.linspace(0, 1, len(values) + 1) if edges is None else np.asarray(edges, float)
        if not np.all(np.isfinite(values) & (values > 0)):
            raise ValueError(f"the values {values.tolist()} must be positive and finite")
        if edges.shape != (len(values) + 1,) or not np.all(np.diff(edges) > 0):
            raise ValueError(
                f"the edges {edges.tolist()} must ascend, and be one more than the "
                f"{len(values)} values"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "edges", edges)

    def __call__(self, points: Float[np.ndarray, "*p"]) -> Float[np.ndarray, "*p"]:
        """The value at each point; at an edge, that of the part on its right."""
        return self.values[self.parts(points)]

    def parts(self, points: Float[np.ndarray, "*p"]) -> np.ndarray:
        """Which part each point lies in.

        Raises:
          ValueError: if one lies in none.
        """
        points, edges = np.asarray(points), self._edges
        if points.size and not (points.min() >= edges[0] and points.max() <= edges[-1]):
            raise ValueError(
                f"points from {points.min():g} to {points.max():g} are not all in "
                f"[{edges[0]:g}, {edges[-1]:g}]"
            )
        return np.searchsorted(edges[1:-1], points, side="right")

    def integral(self, points: Float[np.ndarray, "*p"]) -> Float[np.ndarray, "*p"]:
        """The integral from the first edge to each point."""
        parts, edges = self.parts(points), self._edges
        whole = np.concatenate([[0.0], np.cumsum(self.values * np.diff(edges))])
        return whole[parts] + self.values[parts] * (np.asarray(points) - edges[parts])

    def inverse(self) -> "Steps":
        """One over this function."""
        return Steps(1 / self.values, self._edges)

    @property
    def _edges(self) -> np.ndarray:
        assert self.edges is not None  # since __post_init__
        return self.edges
