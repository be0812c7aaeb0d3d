"""CIFAR-10 whose noisy classes are rare, at a ratio of 10: the paper's first table."""

from har_jax.config import recipes


def get_config():
    return recipes.noisy_and_rare(ratio=10)
