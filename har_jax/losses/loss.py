"""What a loss is where a method can be trained with any."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float, Int

from har_jax.precision import at_least_float32

PerExampleLoss = Callable[[Array, Array], Array]
"""``(logits [B, K], labels [B]) -> [B]``."""


class Loss:
    """A per-example loss, and what goes with it; such a class is a choice of a config.

    A class of its own is a dataclass with ``__call__``, whose fields that are described by a
    :class:`har_jax.options.Option` are its options. A field ``counts`` is given: ``[K]``, how many
    training examples have each label.
    """

    def __call__(self, logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
        """The losses; labels are integers in ``[0, K)``."""
        raise NotImplementedError

    @property
    def cosine(self) -> float | None:
        """The factor of cosines that logits are to be; None of a loss of any logits."""
        return None

    def predict(self, logits: Float[Array, "B K"]) -> Float[Array, "B K"]:
        """The logits of predictions, from those of the network."""
        return logits


class _Wrapped(Loss):
    def __init__(self, fun: PerExampleLoss) -> None:
        self._fun = fun

    def __call__(self, logits: Array, labels: Array) -> Array:
        return self._fun(logits, labels)


def as_loss(loss: Any) -> Loss:
    """A :class:`Loss` of what may be a plain function ``(logits, labels) -> [B]``.

    Raises:
      TypeError: if it cannot be called.
    """
    if not callable(loss):
        raise TypeError(f"a loss is called as (logits, labels); got a {type(loss).__name__}")
    return loss if isinstance(loss, Loss) else _Wrapped(loss)


def widened(logits: Float[Array, "B K"]) -> Float[Array, "B K"]:
    """In float32 at least."""
    return logits.astype(at_least_float32(logits.dtype))
