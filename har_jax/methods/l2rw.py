"""Learning to reweight: an example counts as far as its gradient agrees with that of clean ones."""

from typing import Unpack

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from har_jax.methods.shared.axis import whole_batch
from har_jax.methods.shared.meta import Linearized, forward_passes, meta_gradient, need_meta
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.single_network import StepOptions, accuracy, single_network
from har_jax.objective import weighted_sum


def l2rw(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    **options: Unpack[StepOptions],
) -> Method:
    r"""Minimizes :math:`\sum_i w_i \ell_i`, with :math:`w_i \propto \max(u_i, 0)` in each batch.

    A baseline of the paper's tables: Ren et al. 2018 (arXiv 1803.09050). :math:`u_i` is how much
    the mean loss :math:`L^v` of examples that are known to be labelled rightly falls with the
    weight of example i in a gradient step. That derivative is taken at weights 0, where it is
    :math:`\alpha \langle \nabla\ell_i, \nabla L^v \rangle`; the rate :math:`\alpha` of the step
    cancels in the weights, so that no step is made. Where no :math:`u_i` is positive all weights
    are 0, and the step is that of momentum and weight decay.

    As in the authors' code all passes take the statistics of their own batch in BatchNorm, and only
    that of the training batch counts for the running ones.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      **options: Those of :class:`har_jax.methods.StepOptions`; weights of losses multiply
        :math:`w_i` before it is normalized.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs``, ``labels``, and
      ``meta_inputs`` and ``meta_labels`` of as many examples or others. The metric ``kept`` is the
      share of the examples whose weight is not 0, ``meta_loss`` is :math:`L^v`.

    Raises:
      ValueError: of several microbatches: weights are a batch's; at a step, of a batch without
        ``meta_inputs`` and ``meta_labels``.
    """
    axis = whole_batch("l2rw", options)

    def objective(variables, batch, weights, apply_options):
        need_meta("l2rw", batch)
        passes = forward_passes(model, variables, batch, apply_options)
        params = jax.lax.stop_gradient(variables["params"])
        meta_loss, clean = meta_gradient(lambda params: passes(params, "meta_")[0], params, axis)
        here = Linearized(lambda params: passes(params)[0], params)
        counts = jnp.maximum(here.along(clean), 0)
        loss, logits, collections = passes(variables["params"])
        metrics = {
            "loss": weighted_sum(loss),
            "accuracy": accuracy(logits, batch["labels"]),
            "kept": weighted_sum((counts > 0).astype(jnp.float32)),
            "meta_loss": weighted_sum(meta_loss),
        }
        return weighted_sum(loss, weights * counts), (collections, metrics)

    return single_network(model, optimizer, objective, **options)
