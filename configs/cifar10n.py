"""CIFAR-10 with labels that people gave, by majority of three: CIFAR-10N.

docs/labels.md says how cifar10n_aggregate.npz and the other files are made. For labels of one
annotator each --config.data.labels=cifar10n_random1.npz.
"""

from har_jax.config import recipes


def get_config():
    return recipes.annotated(10, "cifar10n_aggregate.npz")
