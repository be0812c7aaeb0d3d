"""Empirical risk minimization: the weighted mean of the losses and nothing else."""

import optax
from flax import linen as nn

from har_jax.losses import cross_entropy
from har_jax.methods.base import (
    Augment,
    LossWeights,
    Method,
    Preprocess,
    accuracy,
    single_network,
)
from har_jax.objective import weighted_sum


def erm(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    augment: Augment | None = None,
    preprocess: Preprocess | None = None,
    loss_weights: LossWeights | None = None,
) -> Method:
    """Plain training.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      augment: Applied to the inputs of every batch.
      preprocess: Applied to inputs after that, and in prediction.
      loss_weights: Weights of the losses; ones where not given.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``.
    """

    def objective(variables, batch, weights, apply_options):
        logits, collections = model.apply(variables, batch["inputs"], **apply_options)
        loss = cross_entropy(logits, batch["labels"])
        metrics = {"loss": weighted_sum(loss), "accuracy": accuracy(logits, batch["labels"])}
        return weighted_sum(loss, weights), (collections, metrics)

    return single_network(
        model,
        optimizer,
        objective,
        augment=augment,
        preprocess=preprocess,
        loss_weights=loss_weights,
    )
