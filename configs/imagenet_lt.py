"""ImageNet-LT with ResNet-50: --config.data.root=FOLDER.

It has ImageNet's train and val, and ImageNet_LT_train.txt and ImageNet_LT_test.txt.
"""

from har_jax.config import long_tails


def get_config():
    return long_tails.imagenet_lt()
