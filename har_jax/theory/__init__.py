"""The one-dimensional problem of section 2.2 of Cao et al. 2021, which can be solved exactly.

A curve is fitted to points with a penalty on its slope that may differ from place to place. The
exact minimizer is here (:mod:`har_jax.theory.smoothing`), what Theorem 1 says of its error
(:mod:`har_jax.theory.asymptotics`), and data to compare the two on
(:mod:`har_jax.theory.simulation`). All of it is float64 NumPy and SciPy, on the host.
"""

from har_jax.theory.asymptotics import (
    bandwidth,
    bias,
    mean_squared_error,
    optimal_penalty,
    variance,
)
from har_jax.theory.simulation import Design, draw, squared_errors
from har_jax.theory.smoothing import LOSSES, Curve, objective, smooth
from har_jax.theory.steps import Steps

__all__ = [
    "LOSSES",
    "Curve",
    "Design",
    "Steps",
    "bandwidth",
    "bias",
    "draw",
    "mean_squared_error",
    "objective",
    "optimal_penalty",
    "smooth",
    "squared_errors",
    "variance",
]
