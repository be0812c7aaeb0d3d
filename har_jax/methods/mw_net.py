"""Meta-Weight-Net: a small network learns what a loss counts, so that clean examples are served."""

from typing import Annotated, Any, Literal, Unpack

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, PRNGKeyArray

from har_jax.methods.shared.axis import ranks, summed, whole, whole_batch
from har_jax.methods.shared.meta import Linearized, forward_passes, meta_gradient, need_meta
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.single_network import (
    StepOptions,
    accuracy,
    own_collection,
    single_network,
)
from har_jax.objective import WeightedSum, weighted_sum
from har_jax.options import Option

COLLECTION = "weight_net"
"""Of a state: the weighting network's ``params``, its ``opt_state``, and the ``step``."""

_LEAST = 1e-6  # which a weight counts as in its inverse


class WeightNet(nn.Module):
    """V of the paper: the weight of an example by its loss, ``[B] -> [B]``, in (0, 1).

    Attributes:
      units: In the hidden layer.
    """

    units: int = 100

    @nn.compact
    def __call__(self, loss: Float[Array, " B"]) -> Float[Array, " B"]:
        init = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
        dense = lambda width, name: nn.Dense(
            width, kernel_init=init, param_dtype=loss.dtype, name=name
        )
        hidden = nn.relu(dense(self.units, "linear1")(loss[:, jnp.newaxis]))
        return nn.sigmoid(dense(1, "linear2")(hidden))[:, 0]


def mw_net(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    learning_rate: optax.Schedule,
    units: Annotated[
        int, Option("in the hidden layer of the network that weighs losses", ge=1, le=10**6)
    ] = 100,
    meta_rate: Annotated[float, Option("of that network's learning, by Adam", gt=0)] = 1e-3,
    meta_decay: Annotated[float, Option("of its parameters, added to gradients", ge=0)] = 1e-4,
    normalize: Annotated[
        bool, Option("whether weights are divided by their sum over the batch")
    ] = False,
    weighting: Annotated[
        Literal["learned", "random", "inverse"],
        Option("what losses are weighed by: weights as learned, dealt out at random, or inverse"),
    ] = "learned",
    meta_optimizer: optax.GradientTransformation | None = None,
    **options: Unpack[StepOptions],
) -> Method:
    r"""Minimizes :math:`\frac1n \sum_i V(\ell_i; \Theta) \ell_i`, V learned beside it.

    A baseline of the paper's tables: Shu et al. 2019 (arXiv 1902.07379). At each step

    .. math::

        \hat w &= w - \frac\alpha n \sum_i V(\ell_i(w); \Theta) \nabla\ell_i(w) \\
        \Theta &\leftarrow \Theta - \beta \nabla_\Theta L^{meta}(\hat w) \\
        w &\leftarrow w - \frac\alpha n \sum_i V(\ell_i(w); \Theta) \nabla\ell_i(w)

    of which the first is plain and the last the optimizer's, :math:`\alpha` its learning rate.
    :math:`\nabla_\Theta L^{meta}(\hat w) = -\frac\alpha n \sum_i c_i \nabla_\Theta V(\ell_i)` with
    :math:`c_i = \langle \nabla\ell_i(w), \nabla L^{meta}(\hat w) \rangle`, so that no second
    derivative is taken.

    As in the authors' code all passes take the statistics of their own batch in BatchNorm, and only
    that of the training batch counts for the running ones.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      learning_rate: :math:`\alpha` by step.
      units: In V's hidden layer.
      meta_rate: :math:`\beta`, Adam's.
      meta_decay: V's weight decay, part of the gradients that Adam sees.
      normalize: Whether weights are divided by their sum, as in the authors' first script; with
        their mean, as in the paper, that is a part of the learning rate.
      weighting: ``random`` permutes the weights of a batch and ``inverse`` takes their reciprocals,
        of the same mean: the ablations of appendix C of Cao et al. 2021. V learns as ever.
      meta_optimizer: Of V, in place of Adam with that rate and decay.
      **options: Those of :class:`har_jax.methods.StepOptions`; weights of losses multiply V's.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs``, ``labels``, and
      ``meta_inputs`` and ``meta_labels`` of as many examples or others. The metric ``weight`` is
      the mean of V, and ``meta_loss`` the loss at :math:`\hat w`.

    Raises:
      ValueError: of several microbatches: the virtual step is a batch's; at a step, of a batch
        without ``meta_inputs`` and ``meta_labels``.
    """
    axis = whole_batch("mw_net", options)
    weight_net = WeightNet(units)
    if meta_optimizer is None:
        decay = optax.add_decayed_weights(meta_decay)
        meta_optimizer = optax.chain(decay, optax.adam(meta_rate))

    def beside(key: PRNGKeyArray) -> dict[str, Any]:
        params = weight_net.init(jax.random.fold_in(key, 1), jnp.zeros(1))["params"]
        begun = {"params": params, "opt_state": meta_optimizer.init(params)}
        return {COLLECTION: {**begun, "step": jnp.zeros((), jnp.int32)}}

    def study(own, here, params, weights, clean_losses):
        """One step of V, by a virtual one of the network; and the clean examples' losses there."""
        rate = jnp.asarray(learning_rate(own["step"]), here.loss.dtype)
        weighed, pull = jax.vjp(lambda net: weigh(net, here.loss, weights), own["params"])
        size = normalizer(weighed, weights)
        shares = weighed / size
        step = summed(here.gradient(shares), axis)
        virtual = jax.tree.map(lambda p, g: p - rate.astype(p.dtype) * g, params, step)
        meta_loss, clean = meta_gradient(clean_losses, virtual, axis)
        worth = here.along(clean)
        if normalize:  # of which a larger weight takes from all others
            worth = worth - summed(jnp.sum(shares * worth), axis)
        (gradient,) = pull(-rate * worth / size)
        gradient = summed(gradient, axis)
        updates, opt_state = meta_optimizer.update(gradient, own["opt_state"], own["params"])
        learned = optax.apply_updates(own["params"], updates)
        return {"params": learned, "opt_state": opt_state, "step": own["step"] + 1}, meta_loss

    def weigh(net, loss, weights):
        return weight_net.apply({"params": net}, loss) * weights

    def normalizer(weighed, weights):
        return summed(jnp.sum(weighed if normalize else weights), axis)

    def objective(variables, batch, weights, apply_options):
        need_meta("mw_net", batch)
        own, network, apply_options = own_collection(COLLECTION, variables, apply_options)
        passes = forward_passes(model, network, batch, apply_options)
        params = jax.lax.stop_gradient(network["params"])
        here: Linearized[Any] = Linearized(lambda params: passes(params)[0], params)
        clean_losses = lambda params: passes(params, "meta_")[0]
        own, meta_loss = study(own, here, params, weights, clean_losses)
        weighed = weigh(own["params"], here.loss, weights)
        weighed = _dealt(weighed, weighting, apply_options["rngs"]["dropout"], axis)
        loss, logits, collections = passes(network["params"])
        metrics = {
            "loss": weighted_sum(loss),
            "accuracy": accuracy(logits, batch["labels"]),
            "weight": weighted_sum(weighed),
            "meta_loss": weighted_sum(meta_loss),
        }
        total = WeightedSum(jnp.sum(loss * weighed), jnp.sum(weighed if normalize else weights))
        return total, ({**collections, COLLECTION: own}, metrics)

    return single_network(model, optimizer, objective, beside=beside, **options)


def _dealt(
    weights: Float[Array, " b"], how: str, key: PRNGKeyArray, axis: str | None
) -> Float[Array, " b"]:
    """Weights as they are learned, or those of the whole batch in another order or inverse."""
    if how == "random":
        order = ranks(jax.random.uniform(jax.random.fold_in(key, 1), weights.shape), axis)
        return whole(weights, axis)[order]
    if how == "inverse":
        inverse = 1 / jnp.maximum(weights, _LEAST)
        return inverse * summed(jnp.sum(weights), axis) / summed(jnp.sum(inverse), axis)
    return weights
