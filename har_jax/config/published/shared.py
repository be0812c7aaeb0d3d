"""What the choices of several authors have in common."""

from ml_collections import config_dict

from har_jax.config.errors import ConfigError
from har_jax.config.schema import SECTIONS


def num_classes(config: config_dict.ConfigDict, *published: int) -> int:
    """That of the config's CIFAR, of those that there are choices for."""
    sources = {f"tfds:cifar{number}": number for number in published}
    if config.data.source not in sources:
        raise ConfigError(
            f"config.data.source={config.data.source!r} has no published choices: take one of "
            f"{', '.join(sources)}"
        )
    return sources[config.data.source]


def sgd(config: config_dict.ConfigDict, *, rate: float, weight_decay: float) -> None:
    """With momentum of 0.9 and batches of 128, and nothing else of what was there before."""
    _unset(config)
    config.optimizer.name = "sgd"
    config.optimizer.learning_rate = rate
    config.optimizer.momentum = 0.9
    config.optimizer.weight_decay = weight_decay
    config.batch_size = 128


def adam(config: config_dict.ConfigDict, *, weight_decay: float) -> None:
    """With the usual rate of 1e-3 and batches of 128, and nothing else of what was there before."""
    _unset(config)
    config.optimizer.name = "adam"
    config.optimizer.learning_rate = 1e-3
    config.optimizer.b1 = 0.9
    config.optimizer.weight_decay = weight_decay
    config.batch_size = 128


def fall(config: config_dict.ConfigDict, *epochs: float, factor: float) -> None:
    """A rate that falls at each of some epochs but the last one, at which training ends."""
    *falls, end = epochs
    config.optimizer.schedule = "step"
    config.optimizer.decay_epochs = tuple(falls)
    config.optimizer.decay_factor = factor
    config.train.epochs = config.pretrain.epochs = end


def _unset(config: config_dict.ConfigDict) -> None:
    """Leaves none of the options that only some optimizers or schedules read, and defaults."""
    for option, parameter in SECTIONS["optimizer"].plain.items():
        config.optimizer[option] = parameter.default
    for selector in SECTIONS["optimizer"].selectors:
        for option in selector.read_by():
            config.optimizer[option] = None
