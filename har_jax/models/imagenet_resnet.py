"""The residual networks of He et al. 2016 for large images, in the form called v1.5."""

import functools
from typing import Annotated, Any

from flax import linen as nn
from jaxtyping import Array, Float

from har_jax.methods.shared.branches import Mix
from har_jax.models.layers.branches import Layer, branched, check_branches, residual
from har_jax.models.layers.classifier import Cosine, classifier
from har_jax.models.layers.norm import ConvNorm, NormKind, NormOption, Remat
from har_jax.options import Option

BLOCKS = {
    14: (1, 1, 1, 1),
    26: (2, 2, 2, 2),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}


class ImageNetResNet(nn.Module):
    """ResNet-50 and its like: bottleneck blocks, whose 3x3 convolution halves the image.

    ResNet-50 has 25,557,032 parameters at 1,000 classes. The last scale of every block begins at
    0 (Goyal et al. 2017).

    Attributes:
      num_classes: K.
      depth: 14, 26, 50, 101 or 152.
      width: The channels of the stem; the stages have 4, 8, 16 and 32 times as many.
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
    depth: Annotated[int, Option("the layers of a residual network: 14, 26, 50, 101, 152")] = 50
    width: int = 64
    norm: NormOption = "batch"
    dtype: Any = None
    remat: Remat = False
    cosine: Cosine = None
    branches: int = 1

    def __post_init__(self) -> None:
        if self.depth not in BLOCKS:
            raise ValueError(f"depth={self.depth} is none of {', '.join(map(str, BLOCKS))}")
        check_branches(self.branches)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, images: Float[Array, "B H W C"], *, train: bool, mix: Mix | None = None
    ) -> Float[Array, "B K"]:
        first = ConvNorm(
            self.width, (7, 7), strides=2, kind=self.norm, dtype=self.dtype, name="stem"
        )
        make_block = nn.remat(_Bottleneck, static_argnums=(2,)) if self.remat else _Bottleneck

        def stem(x: Array) -> Array:
            return nn.max_pool(first(x, train), (3, 3), (2, 2), padding=((1, 1), (1, 1)))

        def block(stage: int, number: int, name: str) -> Layer:
            width, strides = self.width * 2 ** (stage - 1), 2 if stage > 1 and number == 1 else 1
            layer = make_block(width, strides, self.norm, self.dtype, name=name)
            return lambda x: layer(x, train)

        shared, ends = residual(block, BLOCKS[self.depth], self.branches)
        features = branched([stem, *shared], ends, images, mix)
        last_layer = classifier(self.num_classes, self.cosine, dtype=self.dtype, name="classifier")
        return last_layer(features)


class _Bottleneck(nn.Module):
    width: int
    strides: int
    norm: NormKind
    dtype: Any

    @nn.compact
    def __call__(self, x: Float[Array, "B H W C"], train: bool) -> Float[Array, "B h w D"]:
        layer = functools.partial(ConvNorm, kind=self.norm, dtype=self.dtype)
        y = layer(self.width, name="layer1")(x, train)
        y = layer(self.width, (3, 3), strides=self.strides, name="layer2")(y, train)
        last = layer(
            4 * self.width, activate=False, scale_init=nn.initializers.zeros, name="layer3"
        )
        y = last(y, train)
        if x.shape != y.shape:
            project = layer(4 * self.width, strides=self.strides, activate=False, name="shortcut")
            x = project(x, train)
        return nn.relu(x + y)
