"""CIFAR-100 whose last half of classes is rare, at a ratio of 100, with deferred reweighting."""

from har_jax.config import recipes


def get_config():
    config = recipes.step(100, ratio=100)
    config.reweighting.start_epoch = 80.0
    return config
