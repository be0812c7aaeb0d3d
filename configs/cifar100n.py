"""CIFAR-100 with labels that people gave: CIFAR-100N. docs/labels.md says how the file is made."""

from har_jax.config import recipes


def get_config():
    return recipes.annotated(100, "cifar100n_noisy.npz")
