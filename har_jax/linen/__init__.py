"""Flax Linen models: which of their layers count, and their losses and norms."""

from har_jax.linen.layers import (
    Filter,
    embeddings_and_recurrent_layers,
    normalization_layers,
    normalization_layers_but_stem,
)
from har_jax.linen.transform import LossAndJacobianNorm, loss_and_jacobian_norm

__all__ = [
    "Filter",
    "LossAndJacobianNorm",
    "embeddings_and_recurrent_layers",
    "loss_and_jacobian_norm",
    "normalization_layers",
    "normalization_layers_but_stem",
]
