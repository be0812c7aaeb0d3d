"""What holds a network to what it learned early."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from har_jax.losses.loss import widened

_LEAST = 1e-4  # of a probability, and of what is left of one


def early_learning_targets(
    targets: Float[Array, "B K"], logits: Float[Array, "B K"], beta: float
) -> Float[Array, "B K"]:
    r"""Moves the target of each example towards what the network says now, without a gradient.

    :math:`t \leftarrow \beta t + (1 - \beta) \bar p` with :math:`\bar p` clamped and normalized
    probabilities: Liu et al. 2020 (arXiv 2007.00151). Targets begin at 0.

    Args:
      targets: ``[B, K]``, of the examples of a batch, before.
      logits: ``[B, K]``.
      beta: In ``[0, 1)``: how much of a target stays.

    Returns:
      ``[B, K]`` targets for :func:`early_learning_regularization`.
    """
    probabilities = jax.lax.stop_gradient(_clamped_probabilities(logits))
    now = probabilities / jnp.sum(probabilities, axis=-1, keepdims=True)
    return beta * targets + (1 - beta) * now


def early_learning_regularization(
    logits: Float[Array, "B K"], targets: Float[Array, "B K"]
) -> Float[Array, " B"]:
    r"""Computes :math:`\log(1 - \langle p, t \rangle)`, which keeps to what was learned early.

    Added to cross-entropy with a factor it offsets the gradient of labels that contradict an
    example's target: Liu et al. 2020, with probabilities clamped to [1e-4, 1 - 1e-4] as
    their code has it.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      targets: ``[B, K]``, of :func:`early_learning_targets`.

    Returns:
      ``[B]``, negative.
    """
    agreement = jnp.sum(_clamped_probabilities(logits) * targets, axis=-1)
    return jnp.log1p(-agreement)


def _clamped_probabilities(logits: Float[Array, "B K"]) -> Float[Array, "B K"]:
    return jnp.clip(jax.nn.softmax(widened(logits)), _LEAST, 1 - _LEAST)
