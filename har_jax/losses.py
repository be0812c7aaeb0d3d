"""Losses of logits and labels: per example, but for those that only a batch has."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from har_jax.precision import at_least_float32


def cross_entropy(logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
    """The cross-entropy of softmax probabilities, in nats.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      labels: ``[B]``, integers in ``[0, K)``. Under ``jit`` their range cannot be checked:
        the data sources of this library check it when they load.

    Returns:
      ``[B]`` losses.
    """
    wide = logits.astype(at_least_float32(logits.dtype))
    return optax.softmax_cross_entropy_with_integer_labels(wide, labels)


def generalized_cross_entropy(
    logits: Float[Array, "B K"], labels: Int[Array, " B"], q: float
) -> Float[Array, " B"]:
    r"""Computes :math:`(1 - p_y^q) / q`, between cross-entropy and the mean absolute error.

    The smaller q is, the nearer to cross-entropy, which is its limit at 0; 1 is :math:`1 - p_y`,
    half of the absolute error. The larger q is, the less an improbable label counts: the loss of
    Zhang & Sabuncu 2018 (arXiv 1805.07836).

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      labels: ``[B]``, integers in ``[0, K)``.
      q: In ``(0, 1]``.

    Returns:
      ``[B]`` losses in ``[0, 1 / q]``.

    Raises:
      ValueError: if q is outside of its range.

    Example:
      >>> logits = jnp.log(jnp.array([[0.75, 0.25]]))
      >>> generalized_cross_entropy(logits, jnp.array([1]), q=1.0)
      Array([0.75], dtype=float32)
    """
    _check_q(q)
    # By exp(q log p): the derivative of p ** q is infinite where p is 0.
    return -jnp.expm1(-q * cross_entropy(logits, labels)) / q


def truncated_generalized_cross_entropy(
    logits: Float[Array, "B K"], labels: Int[Array, " B"], q: float, k: float
) -> Float[Array, " B"]:
    r"""Computes :func:`generalized_cross_entropy`, constant where :math:`p_y \le k`.

    Labels that improbable have no gradient: Zhang & Sabuncu 2018, whose training
    alternates between it and weights of the examples, which are 1 where :math:`p_y > k`.

    Args:
      logits: ``[B, K]``; what is narrower than float32 is widened to it first.
      labels: ``[B]``, integers in ``[0, K)``.
      q: In ``(0, 1]``.
      k: The probability in ``[0, 1)`` up to which the loss is that of k.

    Returns:
      ``[B]`` losses in ``[0, (1 - k ** q) / q]``.

    Raises:
      ValueError: if q or k is outside of its range.
    """
    if not 0 <= k < 1:
        raise ValueError(f"k={k} must be in [0, 1)")
    return jnp.minimum(generalized_cross_entropy(logits, labels, q), (1 - k**q) / q)


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
    wide = logits.astype(at_least_float32(logits.dtype))
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


_DETERMINANT_FLOOR = 1e-3
_LEAST = 1e-4  # of a probability, and of what is left of one


def _check_q(q: float) -> None:
    if not 0 < q <= 1:
        raise ValueError(f"q={q} must be in (0, 1]: towards 0 it is the cross-entropy")


def _clamped_probabilities(logits: Float[Array, "B K"]) -> Float[Array, "B K"]:
    wide = logits.astype(at_least_float32(logits.dtype))
    return jnp.clip(jax.nn.softmax(wide), _LEAST, 1 - _LEAST)
