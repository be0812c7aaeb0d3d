"""Flax NNX models: which of their modules count, and their losses and norms."""

from har_jax.nnx.layers import Filter, normalization_layers
from har_jax.nnx.transform import LossAndJacobianNorm, loss_and_jacobian_norm

__all__ = ["Filter", "LossAndJacobianNorm", "loss_and_jacobian_norm", "normalization_layers"]
