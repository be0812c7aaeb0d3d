"""Digits whose noisy classes, two pairs, are the frequent ones, at a ratio of 4."""

from configs import digits


def get_config():
    config = digits.get_config()
    config.data.imbalance.classes = (0, 1, 2, 5, 6, 7)
    return config
