"""HAR against plain training on 8x8 digits: two pairs of classes are noisy and rare."""

from har_jax import config as har_config


def get_config():
    config = har_config.base()
    config.data.source = "digits"
    config.data.augment = "shift1"
    config.data.noise.kind = "groups"
    config.data.noise.groups = ((3, 8), (4, 9))
    config.data.noise.rate = 0.4
    config.data.imbalance.kind = "step"
    config.data.imbalance.classes = (3, 4, 8, 9)
    config.data.imbalance.ratio = 4.0
    config.batch_size = 64
    config.pretrain.folds = 2  # each half is judged by a model of the other one
    config.regularizer.strength = 1.0
    return config
