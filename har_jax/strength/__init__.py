"""How strongly to regularize: from noise and frequency to strengths; arrays in, arrays out."""

from har_jax.strength.adaptation import Adaptation, adaptation
from har_jax.strength.groups import group_statistics
from har_jax.strength.mixtures import mixture_statistics
from har_jax.strength.neighbours import neighbour_statistics
from har_jax.strength.regression import (
    ResidualStatistics,
    regression_tau,
    residual_statistics,
)
from har_jax.strength.scaling import (
    inverse_strength,
    noise_frequency_tau,
    random_strength,
    scale_to_maximum,
)
from har_jax.strength.statistics import GroupStatistics

__all__ = [
    "Adaptation",
    "GroupStatistics",
    "ResidualStatistics",
    "adaptation",
    "group_statistics",
    "inverse_strength",
    "mixture_statistics",
    "neighbour_statistics",
    "noise_frequency_tau",
    "random_strength",
    "regression_tau",
    "residual_statistics",
    "scale_to_maximum",
]
