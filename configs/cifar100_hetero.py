"""CIFAR-100 with 40% of the labels of vehicles moved within their superclasses."""

from har_jax.config import recipes


def get_config():
    return recipes.heteroskedastic(100)
