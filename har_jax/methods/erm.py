"""Empirical risk minimization: plain training with the cross-entropy."""

from typing import Unpack

import optax
from flax import linen as nn

from har_jax.methods.plain import plain
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.single_network import StepOptions


def erm(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    **options: Unpack[StepOptions],
) -> Method:
    """Plain training.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      **options: Those of :class:`har_jax.methods.StepOptions`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``.
    """
    return plain(model, optimizer, **options)
