"""Long-tailed CIFAR-100 at a ratio of 100, with deferred reweighting."""

from har_jax.config import recipes


def get_config():
    config = recipes.long_tailed(100, ratio=100)
    config.reweighting.start_epoch = 80.0
    return config
