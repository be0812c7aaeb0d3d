"""Label-distribution-aware margins: a rare class has to win by more."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from har_jax.losses.class_weights import checked_counts
from har_jax.losses.cross_entropy import cross_entropy
from har_jax.losses.loss import Loss, widened
from har_jax.options import Option


def label_distribution_aware_margin(
    logits: Float[Array, "B K"],
    labels: Int[Array, " B"],
    margins: Float[Array, " K"],
    scale: float = 1.0,
) -> Float[Array, " B"]:
    r"""Computes the cross-entropy of :math:`s (z_c - [c = y] \Delta_y)`.

    The LDAM loss of Cao et al. 2019 (arXiv 1906.07413), as their code has it: the margin is taken
    off before the scale.

    Args:
      logits: ``[B, K]``, z; theirs are cosines. What is narrower than float32 is widened first.
      labels: ``[B]``, integers in ``[0, K)``.
      margins: ``[K]``, :math:`\Delta`, such as those of :func:`class_margins`.
      scale: s.

    Returns:
      ``[B]`` losses.
    """
    wide = widened(logits)
    own = jax.nn.one_hot(labels, wide.shape[-1], dtype=wide.dtype)
    return cross_entropy(scale * (wide - own * jnp.asarray(margins, wide.dtype)), labels)


def class_margins(
    counts: Int[np.ndarray, " K"] | Sequence[int], max_margin: float = 0.5
) -> Float[np.ndarray, " K"]:
    r"""Computes :math:`\Delta_c = m\, (n_{min} / n_c)^{1/4}`: Cao et al. 2019.

    Args:
      counts: ``[K]``, the training examples of each class.
      max_margin: m, that of the rarest class that has examples.

    Returns:
      ``[K]`` margins; m for a class without examples.

    Raises:
      ValueError: if a count is negative or all are 0.

    Example:
      >>> class_margins([16, 1])
      array([0.25, 0.5 ])
    """
    counts = checked_counts(counts)
    least = counts[counts > 0].min()
    return max_margin * (least / np.maximum(counts, least)) ** 0.25


@dataclasses.dataclass(frozen=True, eq=False)
class LabelDistributionAwareMargin(Loss):
    """Margins that are wider for rare classes: :func:`label_distribution_aware_margin`.

    Its logits are ``scale`` times the cosines of features and the classes' weights, of which the
    margins are.

    Attributes:
      counts: ``[K]``, how many training examples have each label.
      max_margin: Of cosines; 0.5 is its authors'.
      scale: Of cosines; 30 is its authors'.
    """

    counts: Int[np.ndarray, " K"]
    max_margin: Annotated[
        float, Option("by how much the rarest class has to win, of cosines", ge=0, le=2)
    ] = 0.5
    scale: Annotated[float, Option("what cosines are multiplied by", gt=0, le=1e4)] = 30.0

    @property
    def cosine(self) -> float:
        return self.scale

    def __call__(self, logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
        margins = self.scale * class_margins(self.counts, self.max_margin)
        return label_distribution_aware_margin(logits, labels, jnp.asarray(margins))
