"""5,000 images of CIFAR-10 with labels that people gave, at small scale, for 30 epochs.

--config.data.labels=FILE names their file; docs/labels.md says how it is made.
"""

from har_jax.config import recipes


def get_config():
    config = recipes.annotated(10, "cifar10n_aggregate.npz")
    recipes.shrink(config)
    config.data.train_size = 5000
    config.pretrain.epochs = config.train.epochs = 30.0
    config.optimizer.decay_epochs = (20.0, 25.0)
    return config
