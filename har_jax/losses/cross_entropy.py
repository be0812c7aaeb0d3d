"""The cross-entropy."""

import dataclasses

import optax
from jaxtyping import Array, Float, Int

from har_jax.losses.loss import Loss, widened


def cross_entropy(logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
    """The cross-entropy of softmax probabilities, in nats.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      labels: ``[B]``, integers in ``[0, K)``. Under ``jit`` their range cannot be checked:
        the data sources of this library check it when they load.

    Returns:
      ``[B]`` losses.
    """
    return optax.softmax_cross_entropy_with_integer_labels(widened(logits), labels)


@dataclasses.dataclass(frozen=True)
class CrossEntropy(Loss):
    """The cross-entropy, as plain training has it: :func:`cross_entropy`."""

    def __call__(self, logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
        return cross_entropy(logits, labels)
