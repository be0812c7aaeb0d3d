"""A small convolutional network for small images."""

from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

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
    """

    num_classes: int
    widths: Widths = (32, 64)
    norm: NormOption = "batch"
    dtype: Any = None
    cosine: Cosine = None

    def __post_init__(self) -> None:
        check_widths(self.widths, self.norm)
        super().__post_init__()

    @nn.compact
    def __call__(self, images: Float[Array, "B H W C"], *, train: bool) -> Float[Array, "B K"]:
        x = images
        for stage, width in enumerate(self.widths):
            for layer in range(2):
                strides = 2 if stage > 0 and layer == 0 else 1
                x = conv3x3(width, strides=strides, dtype=self.dtype)(x)
                x = nn.relu(Norm(self.norm, dtype=self.dtype)(x, train=train))
        last = classifier(self.num_classes, self.cosine, dtype=self.dtype)
        return last(jnp.mean(x, axis=(1, 2)))
