"""CIFAR-10 with 40% of the labels exchanged in two pairs of classes."""

from har_jax.config import recipes


def get_config():
    return recipes.heteroskedastic(10)
