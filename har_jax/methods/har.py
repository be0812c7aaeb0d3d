"""Heteroskedastic adaptive regularization: each example as strongly as its batch row says."""

from typing import Unpack

import jax.numpy as jnp
import optax
from flax import linen as nn

from har_jax import linen
from har_jax.jacobian import Derivative, Reduction
from har_jax.linen.layers import Filter, normalization_layers
from har_jax.losses import cross_entropy
from har_jax.methods.base import Method, Metrics, StepOptions, accuracy, single_network
from har_jax.methods.peak import rows_of
from har_jax.objective import regularized_sum, weighted_sum


def har(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    layers: Filter = normalization_layers,
    reduction: Reduction = "root_sum_square",
    derivative: Derivative = "exact",
    max_norm: float | None = None,
    **options: Unpack[StepOptions],
) -> Method:
    r"""Minimizes :math:`\sum_i (w_i \ell_i + \lambda\tau_i R_i) / \sum_i w_i`.

    The last step of algorithm 1 of Cao et al. 2021; :mod:`har_jax.strength` computes
    :math:`\tau` beforehand.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      layers: Which activations R is taken at.
      reduction: How R sums over layers; see :func:`har_jax.loss_and_jacobian_norm`.
      derivative: How R is differentiated; see :func:`har_jax.loss_and_jacobian_norm`.
      max_norm: :math:`R_i` counts as this at most, with gradient 0 beyond; None: as it is.
      **options: Those of :class:`har_jax.methods.StepOptions`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs``, ``labels`` and
      ``strength [B]``, :math:`\lambda\tau_i`; with ``index [B]`` too, which examples they are,
      the metrics have the :class:`har_jax.methods.peak.Peak` of R where it is not bounded.
    """
    loss_and_norm = linen.loss_and_jacobian_norm(
        model.apply, layers, reduction=reduction, derivative=derivative
    )

    def objective(variables, batch, weights, apply_options):
        labels = batch["labels"]
        r = loss_and_norm(
            lambda logits: weights * cross_entropy(logits, labels),
            variables,
            batch["inputs"],
            **apply_options,
        )
        loss = cross_entropy(r.outputs, labels)
        metrics: Metrics = {
            "loss": weighted_sum(loss),
            "accuracy": accuracy(r.outputs, labels),
            "norm": weighted_sum(r.norm),
        }
        norm = r.norm
        if max_norm is not None:
            norm = jnp.where(norm > max_norm, max_norm, norm)
        elif "index" in batch:
            unweighted = r.norm / jnp.where(weights == 0, 1, weights)
            metrics["peak"] = rows_of(unweighted, loss, batch["index"])
        total = regularized_sum(r.loss, norm, batch["strength"], weights)
        return total, (r.mutated, metrics)

    return single_network(model, optimizer, objective, **options)
