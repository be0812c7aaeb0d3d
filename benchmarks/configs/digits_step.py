"""Digits whose labels are right; the last half of the classes has a tenth of the examples."""

from configs import digits


def get_config():
    config = digits.get_config()
    config.data.noise.kind = "none"
    config.data.noise.groups = config.data.noise.rate = None
    config.data.imbalance.classes = tuple(range(5, 10))
    config.data.imbalance.ratio = 10.0
    return config
