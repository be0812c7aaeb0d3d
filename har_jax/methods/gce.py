"""Generalized cross-entropy: plain training with a loss that improbable labels count less in."""

from typing import Annotated, Unpack

import optax
from flax import linen as nn

from har_jax.losses import generalized_cross_entropy
from har_jax.methods.erm import plain_objective
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.single_network import StepOptions, single_network
from har_jax.options import Option


def gce(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    q: Annotated[float, Option("towards 0 cross-entropy, 1 the absolute error", gt=0, le=1)] = 0.7,
    **options: Unpack[StepOptions],
) -> Method:
    """Minimizes the weighted mean of :func:`har_jax.losses.generalized_cross_entropy`.

    A baseline of the paper's tables: Zhang & Sabuncu 2018 (arXiv 1805.07836), without their
    truncation, which the paper does not mention. Losses are at most 1 / q.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      q: Of the loss; 0.7 is its authors'.
      **options: Those of :class:`har_jax.methods.StepOptions`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``.
    """
    loss = lambda logits, labels: generalized_cross_entropy(logits, labels, q)
    return single_network(model, optimizer, plain_objective(model, loss), **options)
