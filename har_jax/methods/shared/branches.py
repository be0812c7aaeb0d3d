"""What a method may ask of a network: two last parts, of which each can see examples of its own."""

import inspect
from typing import Any, NamedTuple

from flax import linen as nn
from jaxtyping import Array, Float


class Mix(NamedTuple):
    r"""Inputs of the second branch, and how the features of both are mixed.

    With it a network of two branches returns the logits of
    :math:`[2 \alpha f_1(x), 2 (1 - \alpha) f_2(x')]`, of its own inputs x and of x'.

    Attributes:
      inputs: x', ``[B, ...]``, as many as the network's own.
      share: :math:`\alpha`, ``[]``, in [0, 1].
    """

    inputs: Array
    share: Float[Array, ""]


def can_branch(network: Any) -> bool:
    """Whether a network, or a class of networks, can have two branches.

    It can if it has a field ``branches``, 1 by default, and is called as
    ``network(inputs, *, train, mix=None)``. With ``branches=2``

    * it has its last part twice, behind one trunk, and one classifier of both parts' features;
    * without a ``mix`` all inputs go through the trunk once and then through both parts: that is
      prediction;
    * with a :class:`Mix` the network's own inputs go through the trunk and the first part, then
      those of the mix through the trunk and the second, so that running statistics of the trunk
      are of both; features are multiplied as it says.

    :func:`har_jax.models.layers.branches.branched` does all three.
    """
    if not (isinstance(network, nn.Module) or _is_class(network)):
        return False
    fields = getattr(network, "__dataclass_fields__", {})
    return "branches" in fields and "mix" in inspect.signature(network.__call__).parameters


def _is_class(network: Any) -> bool:
    return isinstance(network, type) and issubclass(network, nn.Module)


def need_branches(name: str, network: nn.Module) -> None:
    """Raises ``TypeError`` if a network cannot have two branches."""
    if not can_branch(network):
        raise TypeError(
            f"{name}: {type(network).__name__} cannot have two branches: a network with a field "
            "branches and an argument mix is needed, see "
            "har_jax.methods.shared.branches.can_branch"
        )
