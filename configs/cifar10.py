"""The paper's first experiment: CIFAR-10 whose noisy classes are rare, at a ratio of 10."""

from har_jax import recipes


def get_config():
    return recipes.noisy_and_rare(ratio=10)
