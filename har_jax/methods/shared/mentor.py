r"""MentorNet: a tiny network that weighs another one's examples, and how it learns to.

Jiang et al. 2018 (arXiv 1712.05055), in the form of their released code.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from har_jax.methods.shared.axis import place_of, summed
from har_jax.methods.shared.curricula import PERCENTS
from har_jax.precision import at_least_float32


class Mentor(nn.Module):
    r"""The logit of an example's weight, from its loss, a difference, and the time.

    A bidirectional LSTM of width 1 makes one step over (loss, difference), from nothing, so that
    its forget gates have no part in it; and of its cells :math:`\sigma(i) \tanh(j)` are taken, not
    its outputs, so that its output gates have none. Features of the percent of training are drawn
    at the start and stay as they are; those of a label are the same for all examples. The last
    bias is added to the last kernel, not to the output. All of this is as the authors' code has it.
    """

    units: int = 20
    percent_features: int = 5
    label_features: int = 2

    @nn.compact
    def __call__(
        self,
        loss: Float[Array, " b"],
        difference: Float[Array, " b"],
        percent: Int[Array, ""] | Int[Array, " b"],
    ) -> Float[Array, " b"]:
        drawn, zeros = nn.initializers.glorot_uniform(), nn.initializers.zeros

        def affine(name: str, inputs: Float[Array, "b m"], size: int) -> Float[Array, "b n"]:
            kernel = self.param(f"{name}_kernel", drawn, (inputs.shape[-1], size))
            return inputs @ kernel + self.param(f"{name}_bias", zeros, (size,))

        label = self.param("label", zeros, (self.label_features,))
        percents = self.param("percents", drawn, (PERCENTS, self.percent_features))
        known = jnp.stack([loss, difference], axis=-1).astype(label.dtype)
        forward_and_back = 2
        gates = nn.sigmoid(affine("gate", known, forward_and_back))
        cells = gates * nn.tanh(affine("candidate", known, forward_and_back))
        features = (label, jax.lax.stop_gradient(percents)[percent], cells)
        of_rows = [jnp.broadcast_to(each, (len(loss), each.shape[-1])) for each in features]
        hidden = nn.tanh(affine("hidden", jnp.concatenate(of_rows, axis=-1), self.units))
        kernel = self.param("output_kernel", drawn, (self.units, 1))
        logits: Float[Array, "b 1"] = hidden @ (kernel + self.param("output_bias", zeros, (1,)))
        return logits[:, 0]


class MentorState(NamedTuple):
    """A mentor that is learning.

    Attributes:
      params: Of :class:`Mentor`.
      opt_state: Of :func:`mentor_optimizer`.
    """

    params: PyTree
    opt_state: optax.OptState


def new_mentor(key: PRNGKeyArray) -> MentorState:
    """A mentor that has learnt nothing."""
    one = jnp.zeros(1)
    params = Mentor().init(key, one, one, jnp.zeros((), jnp.int32))["params"]
    return MentorState(params, mentor_optimizer().init(params))


def mentor_weights(
    params: PyTree,
    loss: Float[Array, " b"],
    difference: Float[Array, " b"],
    percent: Int[Array, ""] | Int[Array, " b"],
) -> Float[Array, " b"]:
    """The weights that :class:`Mentor` gives, in (0, 1)."""
    logits: Array = Mentor().apply({"params": params}, loss, difference, percent)  # type: ignore[assignment]
    return nn.sigmoid(logits).astype(loss.dtype)


class Lesson(NamedTuple):
    """What a mentor learns a step from.

    Attributes:
      loss: ``[b]``, of the other network, at these examples.
      difference: ``[b]``, of these from a moving average.
      percent: Of training, of all or of each.
      targets: ``[b]``, the weights that these examples ought to have, in [0, 1].
    """

    loss: Float[Array, " b"]
    difference: Float[Array, " b"]
    percent: Int[Array, ""] | Int[Array, " b"]
    targets: Float[Array, " b"]


Criterion = Callable[[Float[Array, " b"], Float[Array, " b"]], Float[Array, " b"]]
"""``(logits, targets) -> losses``, all ``[b]``."""


def squared_error(logits: Float[Array, " b"], targets: Float[Array, " b"]) -> Float[Array, " b"]:
    """That of the weights, for targets between 0 and 1, such as a curriculum's."""
    return jnp.square(nn.sigmoid(logits) - targets.astype(logits.dtype))


def study(
    mentor: MentorState,
    lesson: Lesson,
    criterion: Criterion = optax.sigmoid_binary_cross_entropy,
    axis: str | None = None,
) -> tuple[MentorState, Float[Array, " b"]]:
    """Makes one step of :func:`mentor_optimizer`.

    Args:
      mentor: Before it.
      lesson: Of the rows that are here.
      criterion: Minimized in the mean over all rows: cross-entropy for targets that are 0 or 1.
      axis: The name of the mapped axis that the rows are split over; None if they are not.

    Returns:
      The mentor after it, the same everywhere; ``[b]``, what it said before, as logits.
    """
    places = place_of(axis)[1]

    def mean_here(params: PyTree) -> tuple[Float[Array, ""], Float[Array, " b"]]:
        logits: Array = Mentor().apply({"params": params}, *lesson[:3])  # type: ignore[assignment]
        return jnp.mean(criterion(logits, lesson.targets)) / places, logits

    gradient, logits = jax.grad(mean_here, has_aux=True)(mentor.params)
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes a rate with a count of steps
        updates, opt_state = mentor_optimizer().update(summed(gradient, axis), mentor.opt_state)
    return MentorState(optax.apply_updates(mentor.params, updates), opt_state), logits


def mentor_optimizer() -> optax.GradientTransformation:
    r"""The authors' Adam: a rate of 0.1, times 0.9 every 1,000 steps, of gradients of norm 5.

    Its :math:`\epsilon` stands beside the root of the second moment as it is, not corrected for its
    start, where Optax's stands beside the corrected one.
    """
    b2, epsilon = 0.999, 1e-8

    def update(updates, state, params=None):
        correction = jnp.sqrt(1 - b2 ** (state.count + 1))
        rule = optax.scale_by_adam(b2=b2, eps=epsilon / correction)
        return rule.update(updates, state, params)

    return optax.chain(
        optax.clip_by_global_norm(5.0),
        optax.GradientTransformation(optax.scale_by_adam().init, update),
        optax.scale_by_learning_rate(optax.exponential_decay(0.1, 1000, 0.9, staircase=True)),
    )


def mislabel(
    keys: PRNGKeyArray, logits: Float[Array, "b K"], labels: Int[Array, " b"], share: float
) -> tuple[Int[Array, " b"], Bool[Array, " b"]]:
    """Replaces a share of right labels by wrong ones, as one who is as confused gives them.

    Args:
      keys: ``[b]``, one for each row.
      logits: ``[b, K]``: a wrong class is drawn by their probabilities, without the right one's.
      labels: ``[b]``.
      share: How probable it is for each that it is replaced.

    Returns:
      ``[b]`` labels, and which of them are right.
    """

    def of_row(key, logits, label):
        whether, which = jax.random.split(key)
        right_class = jax.nn.one_hot(label, len(logits), dtype=bool)
        wrong = jax.random.categorical(which, jnp.where(right_class, -jnp.inf, logits))
        right = jax.random.uniform(whether) >= share
        return jnp.where(right, label, wrong.astype(label.dtype)), right

    return jax.vmap(of_row)(keys, logits.astype(at_least_float32(logits.dtype)), labels)
