"""The residual networks of He et al. 2016 for 32x32 images."""

import functools
from typing import Annotated, Any, Literal

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from har_jax.methods.shared.branches import Mix
from har_jax.models.layers.branches import Layer, branched, check_branches, residual
from har_jax.models.layers.classifier import Cosine, classifier
from har_jax.models.layers.convolution import conv3x3
from har_jax.models.layers.norm import Norm, NormKind, NormOption, Remat, Widths, check_widths
from har_jax.options import Option


class CifarResNet(nn.Module):
    """ResNet-8, -14, -20, -32, ..., -110: by default three stages of 16, 32 and 64 channels.

    Shortcuts carry no parameters: where the image is halved they take every other pixel
    and pad the channels with zeros (option A of He et al. 2016, section 4.2).
    ResNet-32 has 464,154 parameters at 10 classes.

    Attributes:
      num_classes: K.
      depth: 6n + 2, for n blocks in each stage.
      widths: The channels of the three stages, none narrower than the one before.
      stem_strides: Of the first convolution; 2 halves the image from the start.
      norm: The kind of :class:`har_jax.models.Norm`.
      dtype: The dtype of the computation.
      remat: Whether blocks are computed again when they are differentiated, in place of being
        kept in memory. XLA:CPU does not save memory by it.
      cosine: The factor of the cosines that logits are; None of linear ones, see
        :func:`har_jax.models.layers.classifier.classifier`.
      branches: 2 has its last block twice, as
        :func:`har_jax.methods.shared.branches.can_branch` says; a method asks for it.
    """

    num_classes: int
    depth: Annotated[int, Option("the layers of a residual network: 8, 14, 20, 32, ...")] = 32
    widths: Widths = (16, 32, 64)
    stem_strides: Annotated[
        Literal[1, 2], Option("of the first convolution; 2 halves the image from the start")
    ] = 1
    norm: NormOption = "batch"
    dtype: Any = None
    remat: Remat = False
    cosine: Cosine = None
    branches: int = 1

    def __post_init__(self) -> None:
        blocks_per_stage(self.depth)
        if len(self.widths) != 3:
            raise ValueError(f"widths={self.widths} must hold three widths for cifar_resnet")
        check_widths(self.widths, self.norm)
        check_branches(self.branches)
        if list(self.widths) != sorted(self.widths):
            raise ValueError(f"widths={self.widths} must not get narrower in cifar_resnet")
        super().__post_init__()

    @nn.compact
    def __call__(
        self, images: Float[Array, "B H W C"], *, train: bool, mix: Mix | None = None
    ) -> Float[Array, "B K"]:
        blocks = blocks_per_stage(self.depth)
        make_block = nn.remat(_Block, static_argnums=(2,)) if self.remat else _Block
        stem_conv = conv3x3(
            self.widths[0], strides=self.stem_strides, dtype=self.dtype, name="stem_conv"
        )
        stem_norm = Norm(self.norm, dtype=self.dtype, name="stem_norm")

        def stem(x: Array) -> Array:
            return nn.relu(stem_norm(stem_conv(x), train=train))

        def block(stage: int, number: int, name: str) -> Layer:
            width, strides = self.widths[stage - 1], 2 if stage > 1 and number == 1 else 1
            layer = make_block(width, strides, self.norm, self.dtype, name=name)
            return lambda x: layer(x, train)

        shared, ends = residual(block, [blocks] * 3, self.branches)
        features = branched([stem, *shared], ends, images, mix)
        return classifier(
            self.num_classes,
            self.cosine,
            kernel_init=nn.initializers.he_normal(),
            dtype=self.dtype,
            name="classifier",
        )(features)


def blocks_per_stage(depth: int) -> int:
    """n, of a network of depth 6n + 2; ``ValueError`` if there is none."""
    blocks, rest = divmod(depth - 2, 6)
    if rest or blocks < 1:
        raise ValueError(f"depth={depth} is not 6n + 2: take 8, 14, 20, 32, 56 or 110")
    return blocks


class _Block(nn.Module):
    width: int
    strides: int
    norm: NormKind
    dtype: Any

    @nn.compact
    def __call__(self, x: Float[Array, "B H W C"], train: bool) -> Float[Array, "B h w width"]:
        conv = functools.partial(conv3x3, self.width, dtype=self.dtype)
        norm = functools.partial(Norm, self.norm, dtype=self.dtype)
        y = conv(strides=self.strides, name="conv1")(x)
        y = nn.relu(norm(name="norm1")(y, train=train))
        y = norm(name="norm2")(conv(name="conv2")(y), train=train)
        return nn.relu(y + _shortcut(x, self.width, self.strides))


def _shortcut(x: Float[Array, "B H W C"], width: int, strides: int) -> Float[Array, "B h w width"]:
    before = (width - x.shape[-1]) // 2
    after = width - x.shape[-1] - before
    return jnp.pad(x[:, ::strides, ::strides], ((0, 0), (0, 0), (0, 0), (before, after)))
