"""Focal losses: examples that a network fits count less."""

import dataclasses
import math
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from har_jax.losses.class_weights import Beta, class_balanced_weights
from har_jax.losses.cross_entropy import cross_entropy
from har_jax.losses.loss import Loss, widened
from har_jax.options import Option

Gamma = Annotated[
    float, Option("how much less examples count that are fitted; 0: no less", ge=0, le=100)
]


def focal(
    logits: Float[Array, "B K"], labels: Int[Array, " B"], gamma: float
) -> Float[Array, " B"]:
    r"""Computes :math:`-(1 - p_y)^\gamma \log p_y`, with softmax probabilities.

    Lin et al. 2017 (arXiv 1708.02002) have it for sigmoids, Cao et al. 2019 in this form. Its
    derivative is finite for all gammas and logits, since :math:`\log(1 - p_y)` is taken of the
    other logits.

    Args:
      logits: ``[B, K]``, of two classes at least; what is narrower than float32 is widened first.
      labels: ``[B]``, integers in ``[0, K)``.
      gamma: At least 0, where it is the cross-entropy.

    Returns:
      ``[B]`` losses.

    Raises:
      ValueError: if gamma is negative.

    Example:
      >>> focal(jnp.zeros((1, 2)), jnp.array([0]), gamma=1.0)  # half of log 2
      Array([0.3465736], dtype=float32)
    """
    _check_gamma(gamma)
    wide = widened(logits)
    own = jax.nn.one_hot(labels, wide.shape[-1], dtype=bool)
    others = jax.nn.logsumexp(jnp.where(own, -jnp.inf, wide), axis=-1)
    log_rest = others - jax.nn.logsumexp(wide, axis=-1)
    return jnp.exp(gamma * log_rest) * cross_entropy(wide, labels)


def class_balanced_focal(
    logits: Float[Array, "B K"],
    labels: Int[Array, " B"],
    weights: Float[Array, " K"],
    gamma: float,
) -> Float[Array, " B"]:
    r"""Computes :math:`-w_y \sum_c (1 - p_c)^\gamma \log p_c`, each class against all others.

    :math:`p_c` is the sigmoid of the logit for the label's class, and of minus the logit for all
    others: the class-balanced focal loss of Cui et al. 2019 (arXiv 1901.05555). The weight of the
    label's class is that of all terms. Finite, with its derivative, for all finite logits.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened first.
      labels: ``[B]``, integers in ``[0, K)``.
      weights: ``[K]``, such as those of :func:`class_balanced_weights`.
      gamma: At least 0, where it is the sum of binary cross-entropies.

    Returns:
      ``[B]`` losses.

    Raises:
      ValueError: if gamma is negative.
    """
    _check_gamma(gamma)
    wide = widened(logits)
    own = jax.nn.one_hot(labels, wide.shape[-1], dtype=bool)
    right = jnp.where(own, wide, -wide)
    terms = jnp.exp(-gamma * jax.nn.softplus(right)) * jax.nn.softplus(-right)
    return jnp.asarray(weights, wide.dtype)[labels] * jnp.sum(terms, axis=-1)


@dataclasses.dataclass(frozen=True)
class Focal(Loss):
    """The focal loss, of softmax probabilities: :func:`focal`.

    Attributes:
      gamma: 2 is Lin et al.'s; 1 is in the code of Cao et al. 2019.
    """

    gamma: Gamma = 1.0

    def __call__(self, logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
        return focal(logits, labels, self.gamma)


@dataclasses.dataclass(frozen=True, eq=False)
class ClassBalancedFocal(Loss):
    r"""The focal loss of sigmoids, weighted by class: :func:`class_balanced_focal`.

    It is taken of logits minus :math:`\log(K - 1)`. By that the authors begin the biases of their
    last layer, which they do not decay, so that each class has the probability 1/K at first.

    Attributes:
      counts: ``[K]``, how many training examples have each label.
      gamma: 1 is in their scripts, 0.5 and 2 are tried in their paper.
      beta: Of :func:`class_balanced_weights`; 0.9999 is in their scripts.
    """

    counts: Int[np.ndarray, " K"]
    gamma: Gamma = 1.0
    beta: Beta = 0.9999

    def __call__(self, logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
        weights = class_balanced_weights(self.counts, self.beta)
        shifted = widened(logits) - math.log(logits.shape[-1] - 1)
        return class_balanced_focal(shifted, labels, jnp.asarray(weights), self.gamma)


def _check_gamma(gamma: float) -> None:
    if not gamma >= 0:
        raise ValueError(f"gamma={gamma} must not be negative")
