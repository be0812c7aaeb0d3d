"""Empirical risk minimization: the weighted mean of the losses and nothing else."""

from collections.abc import Callable
from typing import Unpack

import optax
from flax import linen as nn
from jaxtyping import Array

from har_jax.losses import cross_entropy
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.single_network import (
    Objective,
    StepOptions,
    accuracy,
    single_network,
)
from har_jax.objective import weighted_sum


def erm(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    **options: Unpack[StepOptions],
) -> Method:
    """Plain training.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      **options: Those of :class:`har_jax.methods.StepOptions`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``.
    """

    return single_network(model, optimizer, plain_objective(model), **options)


def plain_objective(
    model: nn.Module, per_example_loss: Callable[[Array, Array], Array] = cross_entropy
) -> Objective:
    """The weighted sum of the losses of a batch's examples, ``(logits, labels) -> [B]``."""

    def objective(variables, batch, weights, apply_options):
        logits, collections = model.apply(variables, batch["inputs"], **apply_options)
        loss = per_example_loss(logits, batch["labels"])
        metrics = {"loss": weighted_sum(loss), "accuracy": accuracy(logits, batch["labels"])}
        return weighted_sum(loss, weights), (collections, metrics)

    return objective
