"""BBN: two last parts of a network, of which one sees rare classes often, and learns later."""

import math
from typing import Unpack

import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int, PRNGKeyArray

from har_jax.losses import cross_entropy
from har_jax.methods.shared.branches import Mix, need_branches
from har_jax.methods.shared.method import Batch, Method, Step
from har_jax.methods.shared.single_network import StepOptions, accuracy, single_network
from har_jax.objective import WeightedSum, weighted_sum


def bbn(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    steps_per_epoch: float,
    total_steps: int,
    **options: Unpack[StepOptions],
) -> Method:
    r"""Minimizes :math:`\alpha \ell(z, y) + (1 - \alpha) \ell(z, y')`, of pairs of examples.

    A baseline of the paper's tables: Zhou et al. 2020 (arXiv 1912.02413). The one of a pair,
    (x, y), is a batch's, the other, (x', y'), drawn with the classes' frequencies reversed. Both
    have the logits :math:`z = 2 \alpha W_c f_c(x) + 2 (1 - \alpha) W_r f_r(x') + b`, of a network
    that has its last part twice. :math:`\alpha` falls from 1 in the first epoch, in which the
    second part learns nothing, see :func:`share_at`. Predictions are
    :math:`W_c f_c(x) + W_r f_r(x) + b`.

    Args:
      model: One that :func:`har_jax.methods.shared.branches.can_branch` is true of; it is given two
        branches.
      optimizer: An Optax gradient transformation.
      steps_per_epoch: How many steps see every example of the first kind once.
      total_steps: How many are made in all.
      **options: Those of :class:`har_jax.methods.StepOptions`; ``loss_weights`` weigh each of a
        pair's two losses by its own label, and the sum is divided by the sum of
        :math:`\alpha w_y + (1 - \alpha) w_{y'}`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs``, ``labels``, and
      ``reversed_inputs`` and ``reversed_labels`` of as many rows. The metrics ``loss`` and
      ``accuracy`` are those of y, ``reversed_loss`` is that of y', and ``alpha`` what it says.

    Raises:
      TypeError: of a network that cannot have two branches.
      ValueError: of fewer steps than one; at a step, of a batch without the reversed rows, or with
        another number of them.
    """
    need_branches("bbn", model)
    if not (steps_per_epoch > 0 and total_steps >= 1):
        raise ValueError(
            f"bbn: steps_per_epoch={steps_per_epoch} must be positive, and total_steps="
            f"{total_steps} at least 1"
        )
    model = model.clone(branches=2)
    epochs = 1 + math.floor((total_steps - 1) / steps_per_epoch)  # those that are begun
    loss_weights = options.get("loss_weights") or (lambda labels, step: jnp.ones(labels.shape))

    def objective(variables, batch, weights, apply_options):
        share = batch["share"][0]
        mix = Mix(batch["reversed_inputs"], share)
        logits, collections = model.apply(variables, batch["inputs"], mix=mix, **apply_options)
        loss, other = (
            cross_entropy(logits, batch[labels]) for labels in ("labels", "reversed_labels")
        )
        metrics = {
            "loss": weighted_sum(loss),
            "accuracy": accuracy(logits, batch["labels"]),
            "reversed_loss": weighted_sum(other),
            "alpha": weighted_sum(batch["share"]),
        }
        first, second = share * weights, (1 - share) * batch["reversed_weights"]
        total = WeightedSum(jnp.sum(first * loss + second * other), jnp.sum(first + second))
        return total, (collections, metrics)

    def of_pairs(step: Step) -> Step:
        def paired(state, batch: Batch, key: PRNGKeyArray):
            _need_reversed(batch)
            share = share_at(jnp.floor(state.step.astype(float) / steps_per_epoch), epochs)
            more = {
                "share": jnp.full(batch["labels"].shape, share),
                "reversed_weights": loss_weights(batch["reversed_labels"], state.step),
            }
            return step(state, {**batch, **more}, key)

        return paired

    return single_network(model, optimizer, objective, **options).with_steps(of_pairs)


def share_at(epoch: Float[Array, ""] | Int[Array, ""] | int, epochs: int) -> Float[Array, ""]:
    r"""The share of the first branch in an epoch: :math:`\alpha = 1 - (e / E)^2`.

    Args:
      epoch: e, from 0 on: 1 in the first epoch, and never 0.
      epochs: E, how many there are.
    """
    return 1 - (jnp.asarray(epoch, float) / epochs) ** 2


def _need_reversed(batch: Batch) -> None:
    names = ("reversed_inputs", "reversed_labels")
    rows = len(batch["labels"])
    if any(name not in batch or len(batch[name]) != rows for name in names):
        raise ValueError(
            f"bbn: batches need {' and '.join(names)}, of as many rows as labels, {rows}: see "
            "har_jax.data.ReversedBatches"
        )
