"""Losses of logits that are adjusted by how frequent each class is."""

import dataclasses
import math
from typing import Annotated

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from har_jax.losses.class_weights import checked_counts
from har_jax.losses.cross_entropy import cross_entropy
from har_jax.losses.loss import Loss, widened
from har_jax.options import Option

_LEAST = (
    1e-12  # share of a class: one without examples has a finite logarithm, and is lowered by it
)


def balanced_softmax(
    logits: Float[Array, "B K"], labels: Int[Array, " B"], counts: Int[Array, " K"]
) -> Float[Array, " B"]:
    r"""Computes :math:`-\log \bigl( n_y e^{z_y} / \sum_c n_c e^{z_c} \bigr)`.

    Ren et al. 2020 (arXiv 2007.10740): the unadjusted logits are those of classes that are all as
    frequent. It is :func:`logit_adjusted` with temperature 1.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened first.
      labels: ``[B]``, integers in ``[0, K)``.
      counts: ``[K]``, the training examples of each class; one without is out of the sum, but for
        a share of 1e-12.

    Returns:
      ``[B]`` losses.
    """
    wide = widened(logits)
    shares = jnp.asarray(counts, wide.dtype)
    return cross_entropy(wide + jnp.log(jnp.maximum(shares, _LEAST * jnp.sum(shares))), labels)


def logit_adjusted(
    logits: Float[Array, "B K"],
    labels: Int[Array, " B"],
    prior: Float[Array, " K"],
    temperature: float = 1.0,
) -> Float[Array, " B"]:
    r"""Computes the cross-entropy of :math:`z_c + \log(\pi_c^\tau + 10^{-12})`.

    The loss of Menon et al. 2021 (arXiv 2007.07314), with the floor of their code.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened first.
      labels: ``[B]``, integers in ``[0, K)``.
      prior: ``[K]``, :math:`\pi`, the share of each class in the training set.
      temperature: :math:`\tau`; 0 is the cross-entropy.

    Returns:
      ``[B]`` losses.
    """
    wide = widened(logits)
    return cross_entropy(wide + _adjustment(prior, temperature, wide), labels)


def post_hoc_adjusted(
    logits: Float[Array, "B K"], prior: Float[Array, " K"], temperature: float = 1.0
) -> Float[Array, "B K"]:
    r"""Computes :math:`z_c - \log(\pi_c^\tau + 10^{-12})`, of a network that was trained plainly.

    Menon et al. 2021. Not to be used on top of :func:`logit_adjusted`, which has it in training. A
    class without examples is lowered by :math:`-\log 10^{-12}` in place of being raised by it.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened first.
      prior: ``[K]``, :math:`\pi`, the share of each class in the training set.
      temperature: :math:`\tau`.

    Returns:
      ``[B, K]`` logits of predictions.
    """
    wide = widened(logits)
    adjustment = _adjustment(prior, temperature, wide)
    return _without_absent(wide - jnp.where(jnp.asarray(prior) > 0, adjustment, 0), prior)


@dataclasses.dataclass(frozen=True, eq=False)
class BalancedSoftmax(Loss):
    """Logits adjusted by the counts of the classes: :func:`balanced_softmax`.

    Attributes:
      counts: ``[K]``, how many training examples have each label.
    """

    counts: Int[np.ndarray, " K"]

    def __call__(self, logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
        return balanced_softmax(logits, labels, jnp.asarray(self.counts))

    def predict(self, logits: Float[Array, "B K"]) -> Float[Array, "B K"]:
        return _without_absent(logits, jnp.asarray(self.counts))


@dataclasses.dataclass(frozen=True, eq=False)
class LogitAdjusted(Loss):
    """Logits adjusted by the shares of the classes, in training or after it.

    See :func:`logit_adjusted` and :func:`post_hoc_adjusted`.

    Attributes:
      counts: ``[K]``, how many training examples have each label.
      temperature: 1 is its authors'.
      post_hoc: Whether training is with the cross-entropy, and predictions are adjusted.
    """

    counts: Int[np.ndarray, " K"]
    temperature: Annotated[
        float, Option("how much frequencies count: 0 not at all, 1 as they are", ge=0, le=2)
    ] = 1.0
    post_hoc: Annotated[
        bool, Option("whether predictions are adjusted, after plain training, in place of losses")
    ] = False

    def __call__(self, logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
        if self.post_hoc:
            return cross_entropy(logits, labels)
        return logit_adjusted(logits, labels, self._prior(), self.temperature)

    def predict(self, logits: Float[Array, "B K"]) -> Float[Array, "B K"]:
        if not self.post_hoc:
            return _without_absent(logits, self._prior())
        return post_hoc_adjusted(logits, self._prior(), self.temperature)

    def _prior(self) -> Float[Array, " K"]:
        counts = checked_counts(self.counts)
        return jnp.asarray(counts / counts.sum())


def _without_absent(
    logits: Float[Array, "B K"], frequencies: Float[Array, " K"] | Int[Array, " K"]
) -> Float[Array, "B K"]:
    """With classes that have no examples lowered as in training, which says nothing of them."""
    lowered = jnp.where(frequencies > 0, 0, math.log(_LEAST))
    return logits + lowered.astype(logits.dtype)


def _adjustment(
    prior: Float[Array, " K"], temperature: float, logits: Float[Array, "B K"]
) -> Float[Array, " K"]:
    return jnp.log(jnp.asarray(prior, logits.dtype) ** temperature + _LEAST)
