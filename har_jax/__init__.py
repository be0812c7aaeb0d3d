"""Heteroskedastic adaptive regularization for JAX: the public names."""

from har_jax.system import starting  # noqa: F401  # isort: skip  # first, for what it does

from har_jax.jacobian import Axes, LossAndNorm, loss_and_perturbation_norm
from har_jax.linen import LossAndJacobianNorm, loss_and_jacobian_norm
from har_jax.linen.layers import normalization_layers, normalization_layers_but_stem
from har_jax.losses import cross_entropy
from har_jax.objective import WeightedSum, regularized_sum, weighted_sum
from har_jax.strength import (
    GroupStatistics,
    ResidualStatistics,
    group_statistics,
    mixture_statistics,
    neighbour_statistics,
    noise_frequency_tau,
    regression_tau,
    residual_statistics,
    scale_to_maximum,
)
from har_jax.tapping import TapError, loss_and_tap_norm, tap

__all__ = [
    "Axes",
    "GroupStatistics",
    "LossAndJacobianNorm",
    "LossAndNorm",
    "ResidualStatistics",
    "TapError",
    "WeightedSum",
    "cross_entropy",
    "group_statistics",
    "loss_and_jacobian_norm",
    "loss_and_perturbation_norm",
    "loss_and_tap_norm",
    "mixture_statistics",
    "neighbour_statistics",
    "noise_frequency_tau",
    "normalization_layers",
    "normalization_layers_but_stem",
    "regression_tau",
    "regularized_sum",
    "residual_statistics",
    "scale_to_maximum",
    "tap",
    "weighted_sum",
]
