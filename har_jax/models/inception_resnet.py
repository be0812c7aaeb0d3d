"""Inception-ResNet-v2 of Szegedy et al. 2017, the network of the paper's WebVision experiments."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from har_jax.methods.shared.branches import Mix
from har_jax.models.layers.branches import Layer as Part
from har_jax.models.layers.branches import branched, check_branches, names_of
from har_jax.models.layers.classifier import Cosine, classifier
from har_jax.models.layers.convolution import conv
from har_jax.models.layers.norm import ConvNorm, NormKind, NormOption, Remat

Images = Float[Array, "B H W C"]


class Layer(NamedTuple):
    """A convolution of a branch: channels, size of the kernel, strides, padding."""

    features: int
    size: tuple[int, int] = (1, 1)
    strides: int = 1
    padding: int | None = None


def _halving(features: int) -> Layer:
    return Layer(features, (3, 3), 2, 0)


_STEM = (
    (_halving(32), Layer(32, (3, 3), padding=0), Layer(64, (3, 3))),
    (Layer(80), Layer(192, (3, 3), padding=0)),
)
_MIXED_5B = (
    (Layer(96),),
    (Layer(48), Layer(64, (5, 5))),
    (Layer(64), Layer(96, (3, 3)), Layer(96, (3, 3))),
)
_BLOCK35 = (
    (Layer(32),),
    (Layer(32), Layer(32, (3, 3))),
    (Layer(32), Layer(48, (3, 3)), Layer(64, (3, 3))),
)
_REDUCTION_A = ((_halving(384),), (Layer(256), Layer(256, (3, 3)), _halving(384)))
_BLOCK17 = ((Layer(192),), (Layer(128), Layer(160, (1, 7)), Layer(192, (7, 1))))
_REDUCTION_B = (
    (Layer(256), _halving(384)),
    (Layer(256), _halving(288)),
    (Layer(256), Layer(288, (3, 3)), _halving(320)),
)
_BLOCK8 = ((Layer(192),), (Layer(192), Layer(224, (1, 3)), Layer(256, (3, 1))))


class InceptionResNetV2(nn.Module):
    """Inception-ResNet-v2 for images of 299x299 pixels, without the auxiliary classifier.

    55,843,464 parameters at 1,000 classes.

    Attributes:
      num_classes: K.
      repeats: The number of blocks of each of the three kinds; the last has one more.
      norm: The kind of :class:`har_jax.models.Norm`.
      dtype: The dtype of the computation.
      remat: Whether blocks are computed again when they are differentiated, in place of being
        kept in memory. XLA:CPU does not save memory by it.
      cosine: The factor of the cosines that logits are; None of linear ones, see
        :func:`har_jax.models.layers.classifier.classifier`.
      branches: 2 has its last block and what follows twice, as
        :func:`har_jax.methods.shared.branches.can_branch` says; a method asks for it.
    """

    num_classes: int
    repeats: tuple[int, int, int] = (10, 20, 9)
    norm: NormOption = "batch"
    dtype: Any = None
    remat: Remat = False
    cosine: Cosine = None
    branches: int = 1

    def __post_init__(self) -> None:
        check_branches(self.branches)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, images: Images, *, train: bool, mix: Mix | None = None
    ) -> Float[Array, "B K"]:
        make_residual = nn.remat(_Residual, static_argnums=(2,)) if self.remat else _Residual

        def residual(branches: Sequence[Sequence[Layer]], scale: float, name: str, last=False):
            return make_residual(branches, scale, self.norm, self.dtype, not last, name=name)

        def chain(layers: Sequence[Layer], name: str) -> nn.Module:
            return _Chain(layers, self.norm, self.dtype, name=name)

        def reduction(branches: Sequence[Sequence[Layer]], name: str) -> nn.Module:
            return _Reduction(branches, self.norm, self.dtype, name=name)

        def run(*modules: Any) -> Part:
            def part(x: Images) -> Images:
                for module in modules:
                    x = module(x, train)
                return x

            return part

        trunk: list[Part] = []
        for number, layers in enumerate(_STEM, start=1):
            trunk += [run(chain(layers, f"stem{number}")), _pool]
        modules: list[nn.Module] = [_Mixed5b(self.norm, self.dtype, name="mixed_5b")]
        for number in range(self.repeats[0]):
            modules.append(residual(_BLOCK35, 0.17, f"block35_{number + 1}"))
        modules.append(reduction(_REDUCTION_A, "reduction_a"))
        for number in range(self.repeats[1]):
            modules.append(residual(_BLOCK17, 0.10, f"block17_{number + 1}"))
        modules.append(reduction(_REDUCTION_B, "reduction_b"))
        for number in range(self.repeats[2]):
            modules.append(residual(_BLOCK8, 0.20, f"block8_{number + 1}"))
        last = names_of(f"block8_{self.repeats[2] + 1}", self.branches)
        heads = names_of("head", self.branches)
        ends = [
            run(residual(_BLOCK8, 1.0, block, last=True), chain((Layer(1536),), head))
            for block, head in zip(last, heads, strict=True)
        ]
        features = branched([*trunk, run(*modules)], ends, images, mix)
        return classifier(self.num_classes, self.cosine, dtype=self.dtype, name="classifier")(
            features
        )


def _pool(x: Images) -> Images:
    return nn.max_pool(x, (3, 3), (2, 2))


class _Chain(nn.Module):
    """Convolutions with norms and ReLUs, one after the other."""

    layers: Sequence[Layer]
    norm: NormKind
    dtype: Any

    @nn.compact
    def __call__(self, x: Images, train: bool) -> Images:
        options: dict[str, Any] = dict(kind=self.norm, epsilon=1e-3, dtype=self.dtype)
        for number, layer in enumerate(self.layers, start=1):
            x = ConvNorm(*layer, **options, name=f"layer{number}")(x, train)
        return x


class _Branches(nn.Module):
    """Chains side by side, their channels one after the other."""

    branches: Sequence[Sequence[Layer]]
    norm: NormKind
    dtype: Any

    @nn.compact
    def __call__(self, x: Images, train: bool) -> list[Images]:
        return [
            _Chain(layers, self.norm, self.dtype, name=f"branch{number}")(x, train)
            for number, layers in enumerate(self.branches)
        ]


class _Mixed5b(nn.Module):
    norm: NormKind
    dtype: Any

    @nn.compact
    def __call__(self, x: Images, train: bool) -> Images:
        branches = _Branches(_MIXED_5B, self.norm, self.dtype, name="branches")(x, train)
        mean = nn.avg_pool(x, (3, 3), padding="SAME", count_include_pad=False)
        pooled = _Chain((Layer(64),), self.norm, self.dtype, name="pooled")(mean, train)
        return jnp.concatenate([*branches, pooled], axis=-1)


class _Reduction(nn.Module):
    """Halves the image by branches and by taking maxima."""

    branches: Sequence[Sequence[Layer]]
    norm: NormKind
    dtype: Any

    @nn.compact
    def __call__(self, x: Images, train: bool) -> Images:
        branches = _Branches(self.branches, self.norm, self.dtype, name="branches")(x, train)
        return jnp.concatenate([*branches, nn.max_pool(x, (3, 3), (2, 2))], axis=-1)


class _Residual(nn.Module):
    """Adds branches, brought to the input's channels and scaled down."""

    branches: Sequence[Sequence[Layer]]
    scale: float
    norm: NormKind
    dtype: Any
    activate: bool = True

    @nn.compact
    def __call__(self, x: Images, train: bool) -> Images:
        branches = _Branches(self.branches, self.norm, self.dtype, name="branches")(x, train)
        y = jnp.concatenate(branches, axis=-1)
        y = conv(x.shape[-1], (1, 1), use_bias=True, dtype=self.dtype, name="up")(y)
        x = x + self.scale * y
        return nn.relu(x) if self.activate else x
