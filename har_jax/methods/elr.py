"""Early-learning regularization: cross-entropy, held back by what the network said before."""

from typing import Annotated, Unpack

import jax.numpy as jnp
import optax
from flax import linen as nn

from har_jax.losses import (
    cross_entropy,
    early_learning_regularization,
    early_learning_targets,
)
from har_jax.methods.shared.memory import Remembered
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.single_network import StepOptions, accuracy, single_network
from har_jax.objective import weighted_sum
from har_jax.options import Option
from har_jax.precision import at_least_float32


def elr(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    num_examples: int,
    beta: Annotated[
        float, Option("of an example's target, what stays at a step", ge=0, lt=1)
    ] = 0.7,
    factor: Annotated[float, Option("of the regularization", ge=0, le=1e6)] = 3.0,
    **options: Unpack[StepOptions],
) -> Method:
    r"""Minimizes the weighted mean of :math:`\ell_i + \lambda \log(1 - \langle p_i, t_i \rangle)`.

    Liu et al. 2020 (arXiv 2007.00151). The target :math:`t_i` of an example is a moving average of
    what the network says of it, with this step's, in the state: ``[n, K]`` float32, n the number of
    training examples.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      num_examples: n, of the training set.
      beta: The share of a target that stays at a step; 0.7 and 0.9 are the authors' for CIFAR-10.
      factor: :math:`\lambda`; 3 and 1 are the authors' for CIFAR-10, 7 for CIFAR-100.
      **options: Those of :class:`har_jax.methods.StepOptions`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs``, ``labels`` and ``index [B]``,
      which examples they are, in ``[0, n)``; of others losses are NaN.

    Raises:
      ValueError: if beta is outside of its bounds.
    """

    if not 0 <= beta < 1:
        raise ValueError(f"elr: beta={beta} must be in [0, 1)")

    def objective(variables, batch, weights, apply_options):
        labels = batch["labels"]
        logits, collections = model.apply(variables, batch["inputs"], **apply_options)
        targets = early_learning_targets(batch["target"], logits, beta)
        loss = cross_entropy(logits, labels)
        regularization = early_learning_regularization(logits, targets)
        metrics = {
            "loss": weighted_sum(loss),
            "accuracy": accuracy(logits, labels),
            "regularization": weighted_sum(regularization),
            "remembered": Remembered(batch["index"], {"target": targets}),
        }
        total = weighted_sum(loss + factor * regularization, weights)
        return total, (collections, metrics)

    def memory(logits):
        dtype = at_least_float32(logits.dtype)
        return {"target": jnp.zeros((num_examples, logits.shape[-1]), dtype)}

    return single_network(model, optimizer, objective, memory=memory, **options)
