"""Heteroskedastic adaptive regularization: each example as strongly as its batch row says."""

from typing import Annotated, Unpack

import jax.numpy as jnp
import optax
from flax import linen as nn

from har_jax import linen
from har_jax.jacobian import Derivative, Reduction
from har_jax.linen.layers import Filter, normalization_layers
from har_jax.losses import Loss, PerExampleLoss, as_loss, cross_entropy
from har_jax.methods.plain import plain_objective
from har_jax.methods.shared.losses import network_for, predicting_by
from har_jax.methods.shared.method import Method, Metrics
from har_jax.methods.shared.peak import rows_of
from har_jax.methods.shared.single_network import StepOptions, accuracy, single_network
from har_jax.objective import regularized_sum, weighted_sum
from har_jax.options import Option


def har(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    loss: Loss | PerExampleLoss = cross_entropy,
    layers: Filter = normalization_layers,
    reduction: Annotated[
        Reduction, Option("how R sums over layers: the root of squares, or norms")
    ] = "root_sum_square",
    derivative: Annotated[
        Derivative, Option("how R is differentiated: exactly, or by moved activations")
    ] = "exact",
    max_norm: Annotated[
        float | None, Option("what R of an example counts as at most; None: no bound", gt=0)
    ] = None,
    every: Annotated[
        int, Option("take R at each of so many steps, so many times as strong", ge=1, le=1000)
    ] = 1,
    **options: Unpack[StepOptions],
) -> Method:
    r"""Minimizes :math:`\sum_i (w_i \ell_i + \lambda\tau_i R_i) / \sum_i w_i`.

    The last step of algorithm 1 of Cao et al. 2021; :mod:`har_jax.strength` computes
    :math:`\tau` beforehand.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``; of a loss of
        cosines, see :func:`har_jax.methods.shared.losses.network_for`.
      optimizer: An Optax gradient transformation.
      loss: :math:`\ell`, of which R is: one of :mod:`har_jax.losses`, or a function
        ``(logits, labels) -> [B]``.
      layers: Which activations R is taken at.
      reduction: How R sums over layers; see :func:`har_jax.loss_and_jacobian_norm`.
      derivative: How R is differentiated; see :func:`har_jax.loss_and_jacobian_norm`.
      max_norm: :math:`R_i` counts as this at most, with gradient 0 beyond; None: as it is.
      every: :math:`k` takes R at each k-th step only, the first one among them, k times as strong,
        which costs little more than plain training; which steps they are is a function of the
        number of updates made.
      **options: Those of :class:`har_jax.methods.StepOptions`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs``, ``labels`` and
      ``strength [B]``, :math:`\lambda\tau_i`; with ``index [B]`` too, which examples they are,
      the metrics have the :class:`har_jax.methods.shared.peak.Peak` of R where it is not bounded.
    """
    loss = as_loss(loss)
    model = network_for(model, loss)
    plain = plain_objective(model, loss)
    loss_and_norm = linen.loss_and_jacobian_norm(
        model.apply, layers, reduction=reduction, derivative=derivative
    )

    def objective(variables, batch, weights, apply_options):
        labels = batch["labels"]
        r = loss_and_norm(
            lambda logits: weights * loss(logits, labels),
            variables,
            batch["inputs"],
            **apply_options,
        )
        metrics: Metrics = {
            "loss": weighted_sum(loss(r.outputs, labels)),
            "accuracy": accuracy(r.outputs, labels),
            "norm": weighted_sum(r.norm),
        }
        norm = r.norm
        if max_norm is not None:
            norm = jnp.where(norm > max_norm, max_norm, norm)
        elif "index" in batch:
            unweighted = r.norm / jnp.where(weights == 0, 1, weights)
            surprise = cross_entropy(r.outputs, labels)
            metrics["peak"] = rows_of(unweighted, surprise, batch["index"])
        total = regularized_sum(r.loss, norm, every * batch["strength"], weights)
        return total, (r.mutated, metrics)

    def between(variables, batch, weights, apply_options):
        value, (mutated, metrics) = plain(variables, batch, weights, apply_options)
        none = jnp.zeros_like(batch["labels"], jnp.float32)  # varies along devices as these do
        metrics["norm"] = weighted_sum(none, none)
        if max_norm is None and "index" in batch:
            metrics["peak"] = rows_of(none, none, batch["index"])
        return value, (mutated, metrics)

    method = single_network(model, optimizer, objective, between=between, every=every, **options)
    return predicting_by(method, loss)
