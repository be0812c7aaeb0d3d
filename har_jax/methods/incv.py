"""INCV: Co-teaching on examples that are selected by iterative noisy cross-validation."""

import math
from typing import Annotated, Unpack

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int, PRNGKeyArray

from har_jax.methods.shared.axis import whole_batch
from har_jax.methods.shared.method import Batch, Method, Phases, Step
from har_jax.methods.shared.pair import rows_of_batch, taught_by_each_other
from har_jax.methods.shared.single_network import StepOptions
from har_jax.options import Option


def incv(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    steps_per_epoch: float,
    total_steps: int,
    selected_noise_rate: float,
    warm_up: Annotated[
        float | None,
        Option(
            "the share of training before candidates join; None: 0.2, or 0.4 where noise is "
            "asymmetric or more than 0.6",
            ge=0,
            le=1,
        ),
    ] = None,
    gradual_epochs: Annotated[
        int, Option("over which the share that is left out grows", ge=1, le=10**6)
    ] = 10,
    **options: Unpack[StepOptions],
) -> Method:
    """Two networks teach each other on selected examples, and later on candidates as well.

    A baseline of the paper's tables: Chen et al. 2019 (arXiv 1905.05040), their final training.
    From the warm-up on, a batch has rows of candidates beside its own, of examples that were
    neither selected nor removed. Both networks then choose from all of these as many rows as they
    do of the batch alone, see :func:`number_kept`. Before that the candidates are not seen at all,
    by BatchNorm neither.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      steps_per_epoch: How many steps see every selected example once.
      total_steps: How many are made in all.
      selected_noise_rate: The share of wrong labels among the examples that are selected.
      warm_up: The share of training before candidates join; never at 1.
      gradual_epochs: See :func:`number_kept`.
      **options: Those of :class:`har_jax.methods.StepOptions`; ``start`` has ``first`` and
        ``second`` in each of its collections.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``, and
      ``candidate_inputs`` and ``candidate_labels`` of another number of rows, if there are any.
      Metrics and predictions are the first network's.

    Raises:
      ValueError: without a warm-up, of options outside of their bounds, or of several
        microbatches: the smallest losses are a batch's.
    """
    whole_batch("incv", options)
    if warm_up is None:
        raise ValueError("incv: warm_up is needed, the share of training before candidates join")
    if not (0 <= selected_noise_rate < 1 and 0 <= warm_up <= 1 and gradual_epochs >= 1):
        raise ValueError(
            f"incv: selected_noise_rate={selected_noise_rate} must be in [0, 1), warm_up={warm_up} "
            f"in [0, 1], and gradual_epochs={gradual_epochs} at least 1"
        )
    first = math.ceil(warm_up * total_steps)  # step that has candidates
    loss_weights = options.get("loss_weights") or (lambda labels, step: jnp.ones(labels.shape))

    def keeps(step: Int[Array, ""], size: int) -> Int[Array, ""]:
        epoch = jnp.floor(step.astype(jnp.float32) / steps_per_epoch)
        return number_kept(epoch, size, selected_noise_rate, gradual_epochs)

    method = taught_by_each_other(model, optimizer, keeps, rows=_with_candidates, **options)

    def alone(state, batch: Batch, key: PRNGKeyArray):
        own = {name: rows for name, rows in batch.items() if not name.startswith("candidate_")}
        return method.step(state, own, key)

    def together(state, batch: Batch, key: PRNGKeyArray):
        if "candidate_inputs" not in batch:
            return method.step(state, batch, key)
        weights = loss_weights(batch["candidate_labels"], state.step)
        return method.step(state, {**batch, "candidate_weights": weights}, key)

    def step(state, batch: Batch, key: PRNGKeyArray):
        return jax.lax.cond(state.step < first, alone, together, state, batch, key)

    steps: tuple[Step, ...] = (alone, together)
    return method._replace(step=step, phases=Phases(steps, lambda step: int(step >= first)))


def number_kept(
    epoch: Float[Array, ""] | float, size: int, noise_rate: float, gradual_epochs: int
) -> Int[Array, ""]:
    r"""How many rows are learned from, :math:`B (1 - \varepsilon_S \min(1, e / T_k))`, rounded.

    Args:
      epoch: e, from 0 on.
      size: B, of the batch without candidates.
      noise_rate: :math:`\varepsilon_S`, of the examples that are selected.
      gradual_epochs: :math:`T_k`.
    """
    left_out = noise_rate * jnp.minimum(jnp.asarray(epoch) / gradual_epochs, 1.0)
    return jnp.round(size * (1 - left_out)).astype(jnp.int32)


def _with_candidates(
    batch: Batch, weights: Float[Array, " B"]
) -> tuple[Array, Int[Array, " R"], Float[Array, " R"]]:
    """The rows of the batch, and those of the candidates where they are told to join."""
    own = rows_of_batch(batch, weights)
    if "candidate_weights" not in batch:
        return own
    names = ("candidate_inputs", "candidate_labels", "candidate_weights")
    inputs, labels, weights = (
        jnp.concatenate([rows, batch[name]]) for rows, name in zip(own, names, strict=True)
    )
    return inputs, labels, weights
