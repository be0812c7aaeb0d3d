"""Long-tailed CIFAR-10 at small scale, at a ratio of 100."""

from har_jax.config import recipes


def get_config():
    config = recipes.long_tailed(10, ratio=100)
    recipes.shrink(config)
    return config
