"""CIFAR-10 at small scale whose noisy classes are the rare ones, at a ratio of 10."""

from har_jax.config import recipes


def get_config():
    config = recipes.noisy_and_rare(ratio=10)
    recipes.shrink(config)
    return config
