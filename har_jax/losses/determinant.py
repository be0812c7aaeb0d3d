"""A loss that only a batch has: of determinants."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from har_jax.losses.loss import widened

_DETERMINANT_FLOOR = 1e-3


def determinant_mutual_information(
    logits: Float[Array, "B K"],
    labels: Int[Array, " B"],
    weights: Float[Array, " B"] | None = None,
    axis: str | None = None,
) -> Float[Array, ""]:
    r"""Computes :math:`-\log(|\det(Y^\top P)| + 0.001)` of a batch, with Y one-hot, P softmax.

    The determinant-based mutual information of Xu et al. 2019 (arXiv 1909.03388), as their code
    has it: without the 1/B of the paper, beside which the floor would count for more. It does not
    depend on label noise that is the same for all examples of a class, and does not tell
    permutations of the classes from one another, so that it takes a network that was trained
    plainly before. A batch in which a class is absent has the loss
    :math:`-\log 0.001`, and gradient 0.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      labels: ``[B]``, integers in ``[0, K)``.
      weights: ``[B]``, of the rows of Y; ones where they are not given. Those of classes add a
        constant.
      axis: The name of the mapped axis that the batch is split over; None if it is not.

    Returns:
      One number for the batch: it has no losses of its examples, and no parts.
    """
    wide = widened(logits)
    given = jax.nn.one_hot(labels, wide.shape[-1], dtype=wide.dtype)
    if weights is not None:
        given = given * weights.astype(wide.dtype)[:, None]
    joint = given.T @ jax.nn.softmax(wide)
    if axis is not None:
        # The sum, with the derivative of these rows, whatever psum is transposed to.
        joint += jax.lax.stop_gradient(jax.lax.psum(joint, axis) - joint)
    # Where the floor is all that is left of it, as of a class that is never predicted, the
    # derivative of the determinant is out of the range of floats.
    determinant = jnp.abs(jnp.linalg.det(joint))
    counts = determinant > _DETERMINANT_FLOOR * jnp.finfo(joint.dtype).eps
    regular = jnp.where(counts, joint, jnp.eye(len(joint), dtype=joint.dtype))
    determinant = jnp.where(counts, jnp.abs(jnp.linalg.det(regular)), 0)
    return -jnp.log(determinant + _DETERMINANT_FLOOR)
