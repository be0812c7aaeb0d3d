"""How much learning from each example of a batch serves a loss of other examples."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from har_jax.losses import cross_entropy
from har_jax.methods.shared.axis import own_copy, place_of, summed
from har_jax.methods.shared.method import Batch

Params = TypeVar("Params")
Losses = Callable[[Params], Float[Array, " B"]]


class Linearized(Generic[Params]):
    r"""The losses of a batch at some parameters, with products of their gradients.

    Both products are by reverse mode: convolutions that say what their derivatives are have no
    forward mode, so that a directional derivative is the vjp of a vjp.

    Args:
      losses: ``params -> [B]``.
      params: :math:`\theta`.

    Attributes:
      loss: ``[B]``, :math:`\ell_i(\theta)`.
    """

    def __init__(self, losses: Losses[Params], params: Params) -> None:
        self.loss, pull = jax.vjp(losses, params)
        self._back: Callable[[Array], Params] = lambda weights: pull(weights)[0]

    def gradient(self, weights: Float[Array, " B"]) -> Params:
        r""":math:`\sum_i w_i \nabla\ell_i(\theta)`."""
        return self._back(weights)

    def along(self, direction: Params) -> Float[Array, " B"]:
        r""":math:`\langle \nabla\ell_i(\theta), d \rangle` of each example."""
        _, transposed = jax.vjp(self._back, jnp.zeros_like(self.loss))
        (products,) = transposed(direction)
        return products


def meta_gradient(
    losses: Losses[Params], params: Params, axis: str | None
) -> tuple[Float[Array, " b"], Params]:
    """Losses, and the gradient of their mean over all places of an axis.

    Args:
      losses: ``params -> [b]``, of the rows that are here.
      params: Something of each place, as :func:`har_jax.methods.shared.axis.own_copy` makes it; as
        the gradient is.
      axis: The axis that rows are split over; None if they are not.
    """
    _, places = place_of(axis)

    def mean(params: Params) -> tuple[Array, Array]:
        loss = losses(params)
        return jnp.mean(loss) / places, loss

    gradient, loss = jax.grad(mean, has_aux=True)(params)
    return loss, own_copy(summed(gradient, axis), axis)


def forward_passes(
    model: nn.Module,
    variables: Mapping[str, Any],
    batch: Batch,
    apply_options: Mapping[str, Any],
) -> Callable[..., tuple[Float[Array, " b"], Float[Array, "b K"], Mapping[str, Any]]]:
    """``(params, prefix="") -> losses, logits, collections`` of a batch, or of its ``meta_`` rows.

    Args:
      model: Called as ``model(inputs, train=...)``.
      variables: The network's, of which the parameters are left aside.
      batch: As a step of the method is given it.
      apply_options: To be passed to ``model.apply``.
    """

    def passes(params: Any, prefix: str = "") -> tuple[Array, Array, Mapping[str, Any]]:
        inputs, labels = (batch[f"{prefix}{name}"] for name in ("inputs", "labels"))
        logits, collections = model.apply({**variables, "params": params}, inputs, **apply_options)
        return cross_entropy(logits, labels), logits, collections

    return passes


def need_meta(name: str, batch: Batch) -> None:
    """Raises ``ValueError`` if a batch has no examples that are known to be labelled rightly."""
    if "meta_inputs" not in batch or "meta_labels" not in batch:
        raise ValueError(
            f"{name}: batches need meta_inputs and meta_labels, of examples that are known to be "
            "labelled rightly"
        )
