"""iNaturalist 2018 with ResNet-50, as TensorFlow Datasets has it; tested on its validation set."""

from har_jax.config import long_tails


def get_config():
    return long_tails.inaturalist2018()
