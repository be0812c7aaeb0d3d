"""A small convolutional network for small images."""

from typing import Any

from flax import linen as nn
from jaxtyping import Array, Float

from har_jax.methods.shared.branches import Mix
from har_jax.models.layers.branches import Layer, branched, check_branches, names_of
from har_jax.models.layers.classifier import Cosine, classifier
from har_jax.models.layers.convolution import conv3x3
from har_jax.models.layers.norm import Norm, NormOption, Widths, check_widths


class ConvNet(nn.Module):
    """Stages of two 3x3 convolutions, each with a norm and a ReLU; then the mean and a Dense.

    Attributes:
      num_classes: K.
      widths: The channels of each stage; from the second on, a stage halves the image.
      norm: The kind of :class:`har_jax.models.Norm`.
      dtype: The dtype of the computation.
      cosine: The factor of the cosines that logits are; None of linear ones, see
        :func:`har_jax.models.layers.classifier.classifier`.
      branches: 2 has its last stage twice, as
        :func:`har_jax.methods.shared.branches.can_branch` says; a method asks for it.
    """

    num_classes: int
    widths: Widths = (32, 64)
    norm: NormOption = "batch"
    dtype: Any = None
    cosine: Cosine = None
    branches: int = 1

    def __post_init__(self) -> None:
        check_widths(self.widths, self.norm)
        check_branches(self.branches)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, images: Float[Array, "B H W C"], *, train: bool, mix: Mix | None = None
    ) -> Float[Array, "B K"]:
        def stage(number: int, branch: str = "") -> Layer:
            width, first = self.widths[number], 2 if number > 0 else 1
            layers = [
                (
                    conv3x3(width, strides=strides, dtype=self.dtype, name=f"Conv_{at}{branch}"),
                    Norm(self.norm, dtype=self.dtype, name=f"Norm_{at}{branch}"),
                )
                for at, strides in enumerate((first, 1), start=2 * number)
            ]

            def run(x: Array) -> Array:
                for conv, norm in layers:
                    x = nn.relu(norm(conv(x), train=train))
                return x

            return run

        last = len(self.widths) - 1
        shared = [stage(number) for number in range(last)]
        ends = [stage(last, branch) for branch in names_of("", self.branches)]
        features = branched(shared, ends, images, mix)
        return classifier(self.num_classes, self.cosine, dtype=self.dtype)(features)
