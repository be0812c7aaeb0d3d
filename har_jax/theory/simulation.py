"""Data of the one-dimensional problem, and the errors of what is fitted to them."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from scipy import special

from har_jax.theory.smoothing import LOSSES, smooth
from har_jax.theory.steps import Steps

_Function = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Design:
    """Where points are drawn from.

    Attributes:
      truth: f*, at points.
      second_derivative: Of it.
      density: q, whose integral is 1.
      deviation: The standard deviation of y around the truth; None for labels of -1 and 1 by the
        logistic model (section 2.2, eq. 2 of Cao et al. 2021), whose noise the truth says.

    Raises:
      ValueError: if the density's integral is not 1.
    """

    truth: _Function
    second_derivative: _Function
    density: Steps
    deviation: Steps | None = None

    def __post_init__(self) -> None:
        whole = float(self.density.integral(np.asarray(self.density.edges))[-1])
        if not np.isclose(whole, 1):
            raise ValueError(f"the density's integral is {whole:g}, not 1")

    @property
    def loss(self) -> str:
        """The loss that belongs to it, one of :data:`har_jax.theory.LOSSES`."""
        return "logistic" if self.deviation is None else "squared"

    def noise(self, points: Float[np.ndarray, "*p"]) -> Float[np.ndarray, "*p"]:
        """V, the variance of the loss's derivative at the truth."""
        if self.deviation is None:
            return self.curvature(points)
        return self.deviation(points) ** 2

    def curvature(self, points: Float[np.ndarray, "*p"]) -> Float[np.ndarray, "*p"]:
        """H, the mean of the loss's second derivative at the truth."""
        truth = self.truth(points)
        return LOSSES[self.loss].curvature(truth, np.ones_like(truth))


def draw(
    design: Design, count: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Draws so many x, ascending, and their y."""
    edges = np.asarray(design.density.edges)
    share = design.density.integral(edges)
    x = np.interp(np.sort(rng.random(count)) * share[-1], share, edges)
    truth = design.truth(x)
    if design.deviation is None:
        return x, np.where(rng.random(count) < special.expit(truth), 1.0, -1.0)
    return x, truth + design.deviation(x) * rng.normal(size=count)


def squared_errors(
    design: Design,
    count: int,
    penalties: Sequence[Steps],
    repeats: int,
    seed: int,
    points: int = 1000,
) -> Float[np.ndarray, "repeats penalties"]:
    r"""The integral of the squared error of every fit, the mean squared error being its mean.

    Args:
      design: Where data are drawn from; anew in each repeat, the same for all penalties.
      count: n.
      penalties: :math:`\lambda \rho`.
      repeats: How often.
      seed: Of the data.
      points: At which the integral is taken, by the midpoint rule.
    """
    rng = np.random.default_rng(seed)
    edges = np.asarray(design.density.edges)
    length = edges[-1] - edges[0]
    t = edges[0] + length * (np.arange(points) + 0.5) / points
    truth, errors = design.truth(t), np.empty((repeats, len(penalties)))
    for repeat in range(repeats):
        x, y = draw(design, count, rng)
        for index, penalty in enumerate(penalties):
            found = smooth(x, y, rho=penalty, lam=1.0, loss=design.loss)(t)
            errors[repeat, index] = length * np.mean((found - truth) ** 2)
    return errors
