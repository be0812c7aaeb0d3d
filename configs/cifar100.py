"""CIFAR-100 as it is."""

from har_jax.config import recipes


def get_config():
    return recipes.cifar(100)
