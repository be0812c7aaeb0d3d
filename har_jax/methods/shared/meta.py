"""How much learning from each example of a batch serves a loss of other examples."""

from collections.abc import Callable
from typing import Generic, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

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


def need_meta(name: str, batch: Batch) -> None:
    """Raises ``ValueError`` if a batch has no examples that are known to be labelled rightly."""
    if "meta_inputs" not in batch or "meta_labels" not in batch:
        raise ValueError(
            f"{name}: batches need meta_inputs and meta_labels, of examples that are known to be "
            "labelled rightly"
        )
