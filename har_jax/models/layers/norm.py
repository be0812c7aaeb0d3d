"""Normalization with its scale and bias outside of the Flax layer, and a convolution with it."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from flax import linen as nn
from jaxtyping import Array, Float

from har_jax.models.layers.convolution import conv
from har_jax.options import Option

AXIS = "data"
"""The mapped axis that batches are split over."""

NormKind = Literal["batch", "sync_batch", "layer", "group"]
NORMS: tuple[str, ...] = get_args(NormKind)

# What networks have in common that a config can say of them.
NormOption = Annotated[NormKind, Option("the kind of all norms")]
Widths = Annotated[
    Sequence[Annotated[int, Option(gt=0)]],
    Option("of each stage, or LSTM layer", must="hold positive integers"),
]
Remat = Annotated[
    bool, Option("whether blocks are computed again in place of being kept in memory")
]


def check_widths(widths: Sequence[int], norm: NormKind) -> None:
    """Raises ``ValueError`` unless there are widths that a norm can take."""
    if not widths or any(width < 1 for width in widths):
        raise ValueError(f"widths={widths} must hold positive integers")
    if norm == "group" and any(width % 8 for width in widths):
        raise ValueError(f"widths={widths} must be multiples of 8 for group norm")


class Norm(nn.Module):
    """A Flax normalization layer without parameters, then a scale and a bias.

    Flax's layer returns the normalized activation before scale and bias: the point that
    the authors' code taps, and :func:`har_jax.normalization_layers` selects.

    Attributes:
      kind: ``"batch"`` (momentum 0.9), ``"sync_batch"``, whose statistics are those of all
        devices of the mapped axis ``"data"``, ``"layer"`` or ``"group"`` (groups of 8 channels).
      epsilon: Added to the variance.
      scale_init: Of the scale.
      dtype: The dtype of the computation; statistics are taken in float32 at least.
    """

    kind: NormKind = "batch"
    epsilon: float = 1e-5
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Float[Array, "... C"], *, train: bool) -> Float[Array, "... C"]:
        options: dict[str, Any] = dict(
            epsilon=self.epsilon, use_scale=False, use_bias=False, dtype=self.dtype
        )
        if self.kind in ("batch", "sync_batch"):
            axis = AXIS if self.kind == "sync_batch" else None
            x = nn.BatchNorm(not train, momentum=0.9, axis_name=axis, **options)(x)
        elif self.kind == "layer":
            x = nn.LayerNorm(**options)(x)
        elif self.kind == "group":
            x = nn.GroupNorm(num_groups=None, group_size=8, **options)(x)
        else:
            raise ValueError(f"kind={self.kind!r} is unknown: take one of {', '.join(NORMS)}")
        shape = (1,) * (x.ndim - 1) + x.shape[-1:]
        scale = self.param("scale", self.scale_init, x.shape[-1:])
        bias = self.param("bias", nn.initializers.zeros, x.shape[-1:])
        return x * scale.astype(x.dtype).reshape(shape) + bias.astype(x.dtype).reshape(shape)


class ConvNorm(nn.Module):
    """A convolution without bias, a norm, and a ReLU if not told otherwise.

    Attributes:
      features: The number of channels.
      size: Of the kernel.
      strides: In both directions.
      padding: As :func:`har_jax.models.layers.convolution.conv` has it.
      activate: Whether there is a ReLU.
      kind: Of :class:`Norm`; so are the others.
    """

    features: int
    size: tuple[int, int] = (1, 1)
    strides: int = 1
    padding: int | tuple[int, int] | None = None
    activate: bool = True
    kind: NormKind = "batch"
    epsilon: float = 1e-5
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Float[Array, "B H W C"], train: bool) -> Float[Array, "B h w features"]:
        x = conv(
            self.features,
            self.size,
            strides=self.strides,
            padding=self.padding,
            dtype=self.dtype,
            name="conv",
        )(x)
        norm = Norm(self.kind, self.epsilon, self.scale_init, self.dtype, name="norm")
        x = norm(x, train=train)
        return nn.relu(x) if self.activate else x
