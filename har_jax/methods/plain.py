"""Plain training: the weighted mean of the losses, whichever they are, and nothing else."""

from typing import Unpack

import optax
from flax import linen as nn

from har_jax.losses import Loss, PerExampleLoss, as_loss, cross_entropy
from har_jax.methods.shared.losses import network_for, predicting_by
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.single_network import (
    Objective,
    StepOptions,
    accuracy,
    single_network,
)
from har_jax.objective import weighted_sum


def plain(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    loss: Loss | PerExampleLoss = cross_entropy,
    **options: Unpack[StepOptions],
) -> Method:
    """Minimizes the weighted mean of a loss.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``; of a loss of
        cosines, see :func:`har_jax.methods.shared.losses.network_for`.
      optimizer: An Optax gradient transformation.
      loss: One of :mod:`har_jax.losses`, or a function ``(logits, labels) -> [B]``.
      **options: Those of :class:`har_jax.methods.StepOptions`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``.

    Example:
      >>> from har_jax.losses import Focal
      >>> from har_jax.models import ConvNet
      >>> method = plain(ConvNet(10), optax.sgd(0.1), loss=Focal(gamma=2.0))
    """
    loss = as_loss(loss)
    model = network_for(model, loss)
    method = single_network(model, optimizer, plain_objective(model, loss), **options)
    return predicting_by(method, loss)


def plain_objective(model: nn.Module, loss: PerExampleLoss = cross_entropy) -> Objective:
    """The weighted sum of the losses of a batch's examples, ``(logits, labels) -> [B]``."""

    def objective(variables, batch, weights, apply_options):
        logits, collections = model.apply(variables, batch["inputs"], **apply_options)
        losses = loss(logits, batch["labels"])
        metrics = {"loss": weighted_sum(losses), "accuracy": accuracy(logits, batch["labels"])}
        return weighted_sum(losses, weights), (collections, metrics)

    return objective
