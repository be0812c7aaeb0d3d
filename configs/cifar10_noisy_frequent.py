"""CIFAR-10 whose noisy classes are the frequent ones, at a ratio of 10."""

from har_jax.config import recipes


def get_config():
    return recipes.clean_and_rare(ratio=10)
