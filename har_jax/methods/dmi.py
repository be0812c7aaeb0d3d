"""L_DMI: determinant-based mutual information, of a network that was trained plainly before."""

from typing import Annotated, Unpack

import jax.numpy as jnp
import optax
from flax import linen as nn

from har_jax.losses import cross_entropy, determinant_mutual_information
from har_jax.methods.shared.axis import place_of, summed, whole_batch
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.single_network import StepOptions, accuracy, single_network
from har_jax.objective import WeightedSum, weighted_sum
from har_jax.options import Option


def dmi(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    rate: Annotated[
        float, Option("of learning, as a factor of the optimizer's, since training goes on", gt=0)
    ] = 1e-4,
    **options: Unpack[StepOptions],
) -> Method:
    """Minimizes :func:`har_jax.losses.determinant_mutual_information` of each batch.

    A baseline of the paper's tables: Xu et al. 2019 (arXiv 1909.03388). Their second stage takes a
    rate of 1e-6 where the first, plain one begins with 0.1; a factor of 0.01 made networks collapse
    on the digits. Its gradient does not depend on the weights of classes. Of a batch in which a
    class is absent it is 0; the metric ``absent`` is the share of these.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      rate: Multiplies the optimizer's updates.
      **options: Those of :class:`har_jax.methods.StepOptions`; ``start`` is the plain network's
        variables, without which it can learn any permutation of the classes.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``.

    Raises:
      ValueError: of several microbatches: the loss is a batch's.
    """
    axis = whole_batch("dmi", options)

    def objective(variables, batch, weights, apply_options):
        labels = batch["labels"]
        logits, collections = model.apply(variables, batch["inputs"], **apply_options)
        value = determinant_mutual_information(logits, labels, weights, axis)
        counts = summed(jnp.zeros(logits.shape[-1]).at[labels].add(1.0), axis)
        _, places = place_of(axis)
        of_batch = lambda number: WeightedSum(number / places, jnp.ones(()) / places)
        metrics = {
            "loss": weighted_sum(cross_entropy(logits, labels)),
            "accuracy": accuracy(logits, labels),
            "dmi": of_batch(value),
            "absent": of_batch(jnp.any(counts == 0).astype(jnp.float32)),
        }
        # Every place has the value of the whole batch, and a gradient by its own rows.
        return WeightedSum(value, jnp.ones(()) / places), (collections, metrics)

    return single_network(model, optax.chain(optimizer, optax.scale(rate)), objective, **options)
