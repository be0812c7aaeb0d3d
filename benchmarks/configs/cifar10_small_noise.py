"""CIFAR-10 at small scale, 40% of the labels exchanged in two pairs of classes."""

from har_jax.config import recipes


def get_config():
    config = recipes.heteroskedastic(10)
    recipes.shrink(config)
    return config
