"""Networks in Flax Linen; those with norms can be tapped before scale and bias.

Every model is called as ``model(inputs, train=...)`` and returns ``logits [B, K]``. A network is a
file and a line here; what it reads are images, unless its class says ``reads = "texts"``.
"""

from collections.abc import Mapping

from flax import linen as nn

from har_jax.models.bilstm import BiLSTM
from har_jax.models.convnet import ConvNet
from har_jax.models.imagenet_resnet import ImageNetResNet
from har_jax.models.inception_resnet import InceptionResNetV2
from har_jax.models.layers.norm import Norm
from har_jax.models.resnet import CifarResNet

NETWORKS: Mapping[str, type[nn.Module]] = {
    "convnet": ConvNet,
    "cifar_resnet": CifarResNet,
    "imagenet_resnet": ImageNetResNet,
    "inception_resnet_v2": InceptionResNetV2,
    "bilstm": BiLSTM,
}
"""The networks that a config can name."""

__all__ = [
    "NETWORKS",
    "BiLSTM",
    "CifarResNet",
    "ConvNet",
    "ImageNetResNet",
    "InceptionResNetV2",
    "Norm",
]
