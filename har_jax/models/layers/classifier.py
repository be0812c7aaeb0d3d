"""The last layer of a network: logits that are linear in its features, or go by angles alone."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.extend.core import get_opaque_trace_state
from jaxtyping import Array, Float

from har_jax.options import Option
from har_jax.precision import at_least_float32

Cosine = Annotated[
    float | None,
    Option(
        "the logits are so many times the cosines of features and the classes' weights; None: a "
        "linear classifier",
        gt=0,
    ),
]
"""What networks have in common that a config can say of their last layer."""

_LINEAR_INIT = nn.initializers.lecun_normal()  # Flax's own


def classifier(
    num_classes: int,
    cosine: float | None,
    *,
    kernel_init: nn.initializers.Initializer = _LINEAR_INIT,
    dtype: Any = None,
    name: str | None = None,
) -> nn.Module:
    """A module ``features [B, F] -> logits [B, K]``.

    Args:
      num_classes: K.
      cosine: The factor of :class:`CosineClassifier`; None for a ``nn.Dense``, which has a bias.
      kernel_init: Of the weights ``[F, K]``.
      dtype: The dtype of the computation.
      name: Of the module.

    Raises:
      ValueError: if the factor is not positive.
    """
    if cosine is None:
        return nn.Dense(num_classes, kernel_init=kernel_init, dtype=dtype, name=name)
    if not cosine > 0:
        raise ValueError(f"cosine={cosine} must be positive, or None for a linear classifier")
    return CosineClassifier(num_classes, cosine, kernel_init, dtype, name=name)


class CosineClassifier(nn.Module):
    r"""Computes :math:`s \langle x / \|x\|, W_k / \|W_k\| \rangle`, without a bias.

    As the classifier of Cao et al. 2019 (arXiv 1906.07413), whose code leaves the factor to the
    loss. Features that are 0 have logits 0 and no gradient; in their code, where a norm counts as
    1e-12 at least, it is 1e12 times the cotangent.

    Attributes:
      num_classes: K.
      scale: s.
      kernel_init: Of the weights ``[F, K]``, of which only the direction of each column counts.
      dtype: The dtype of the computation, which is done in float32 at least; so are the logits.
    """

    num_classes: int
    scale: float
    kernel_init: nn.initializers.Initializer = _LINEAR_INIT
    dtype: Any = None

    @nn.compact
    def __call__(self, features: Float[Array, "B F"]) -> Float[Array, "B K"]:
        shape = (features.shape[-1], self.num_classes)
        kernel = self.param("kernel", self.kernel_init, shape)
        wide = at_least_float32(self.dtype or features.dtype)
        cosines = _unit(features.astype(wide), axis=-1) @ _unit(kernel.astype(wide), axis=0)
        return self.scale * cosines


def features_of(
    predict: Callable[[Mapping[str, Any], Array], Float[Array, "B K"]],
) -> Callable[[Mapping[str, Any], Array], Float[Array, "B F"]]:
    """What a network's last layer takes: its last ``nn.Dense`` or cosine classifier of K outputs.

    Of a network that calls none of them, or only inside of a JAX transformation, it is the logits.

    Args:
      predict: ``(variables, inputs) -> logits``.
    """

    def fun(variables: Mapping[str, Any], inputs: Array) -> Float[Array, "B F"]:
        here, found = get_opaque_trace_state(convention="flax"), []

        def intercept(next_fun, args, kwargs, context):
            dense = isinstance(context.module, (nn.Dense, CosineClassifier))
            outside = get_opaque_trace_state(convention="flax") == here
            output = next_fun(*args, **kwargs)
            if dense and outside and context.method_name == "__call__":
                found.append((args[0], output))
            return output

        with nn.intercept_methods(intercept):
            logits = predict(variables, inputs)
        of_classes = [taken for taken, made in found if made.shape == logits.shape]
        return of_classes[-1] if of_classes else logits

    return fun


def _unit(vectors: Float[Array, "m n"], axis: int) -> Float[Array, "m n"]:
    """Vectors of length one along an axis; those of length 0 stay, and have no gradient."""
    square = jnp.sum(vectors**2, axis, keepdims=True)
    some = square > 0
    return vectors * jnp.where(some, jax.lax.rsqrt(jnp.where(some, square, 1)), 0)
