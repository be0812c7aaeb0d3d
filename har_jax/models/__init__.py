"""Networks in Flax Linen; those with norms can be tapped before scale and bias.

Every model is called as ``model(inputs, train=...)`` and returns ``logits [B, K]``.
"""

from har_jax.models.bilstm import BiLSTM
from har_jax.models.convnet import ConvNet
from har_jax.models.imagenet_resnet import ImageNetResNet
from har_jax.models.inception_resnet import InceptionResNetV2
from har_jax.models.norm import Norm
from har_jax.models.resnet import CifarResNet

__all__ = ["BiLSTM", "CifarResNet", "ConvNet", "ImageNetResNet", "InceptionResNetV2", "Norm"]
