"""Places-LT with ResNet-152, from random weights: --config.data.root=FOLDER.

It has the images of Places, and Places_LT_train.txt and Places_LT_test.txt.
"""

from har_jax.config import long_tails


def get_config():
    return long_tails.places_lt()
