"""Uniform regularization: the same Jacobian penalty on every example."""

from typing import Any

import jax.numpy as jnp
import optax
from flax import linen as nn

from har_jax.methods.har import har
from har_jax.methods.shared.base import Method


def uniform(
    model: nn.Module, optimizer: optax.GradientTransformation, strength: float, **options: Any
) -> Method:
    """The paper's baseline "Unif-reg": HAR with one strength for all.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      strength: The factor of R.
      **options: Those of :func:`har_jax.methods.har`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``.
    """
    adaptive = har(model, optimizer, **options)

    def step(state, batch, key):
        constant = jnp.full(batch["labels"].shape, strength)
        return adaptive.step(state, {**batch, "strength": constant}, key)

    return adaptive._replace(step=step)
