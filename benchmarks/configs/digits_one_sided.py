"""Digits of which 40% of the 3 are called 8 and of the 4 are called 9, and not the reverse."""

from configs import digits


def get_config():
    config = digits.get_config()
    config.data.noise.kind = "asymmetric"
    config.data.noise.groups = config.data.noise.rate = None
    config.data.noise.flips = ((3, 8, 0.4), (4, 9, 0.4))
    return config
