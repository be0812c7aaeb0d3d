"""Uniform regularization: the same Jacobian penalty on every example."""

from typing import Any

import jax.numpy as jnp
import optax
from flax import linen as nn

from har_jax.methods.har import har
from har_jax.methods.shared.method import Method, Step


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

    def constant(step: Step) -> Step:
        def regularized(state, batch, key):
            strengths = jnp.full(batch["labels"].shape, strength)
            return step(state, {**batch, "strength": strengths}, key)

        return regularized

    return adaptive.with_steps(constant)
