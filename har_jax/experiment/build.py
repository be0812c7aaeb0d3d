"""From a config's sections to models, optimizers and methods."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array
from ml_collections import config_dict

from har_jax import methods
from har_jax.config import ConfigError, own
from har_jax.config.consistency import reads
from har_jax.config.defaults import OPTIONS, flatten, join
from har_jax.config.schema import SECTIONS, Selector
from har_jax.data import DataError
from har_jax.data.apart import Parts
from har_jax.data.corruption import IMBALANCES, NOISES, Imbalance, Noise
from har_jax.data.images import AUGMENTATIONS, normalizer
from har_jax.data.reading.decoding import CROPS
from har_jax.data.sources import Kind, Source
from har_jax.linen.layers import Filter
from har_jax.losses import Loss, as_loss
from har_jax.options import make
from har_jax.train.optimizer import WeightDecay, make_optimizer, make_schedule


def make_model(
    config: Mapping[str, Any],
    num_classes: int,
    vocabulary_size: int | None = None,
    axis: str | None = None,
) -> nn.Module:
    """The network that ``config.model`` describes.

    Args:
      config: That section.
      num_classes: K.
      vocabulary_size: The number of ids that stand for words; None of images.
      axis: The axis that batches are split over; None if they are not.
    """
    network, chosen = _own("model", config)
    if chosen.get("norm") == "sync_batch" and axis is None:  # on one device it is the same
        chosen["norm"] = "batch"
    given: dict[str, Any] = {"num_classes": num_classes, "dtype": jnp.dtype(config["dtype"])}
    if vocabulary_size is not None:
        given["vocabulary_size"] = vocabulary_size
    model: nn.Module = make(network, chosen=chosen, given=given)
    return model


def what_it_reads(config: Mapping[str, Any]) -> Kind:
    """What the network of ``config.model`` reads."""
    return reads(_own("model", config)[0])


def make_filter(config: Mapping[str, Any]) -> Filter:
    """The activations that ``config.regularizer`` takes R at."""
    layers, chosen = _own("regularizer", config)
    if not own.is_own(_selector("regularizer"), config["layers"]) or not chosen:
        return layers
    return lambda module, method_name: make(layers, module, method_name, chosen=chosen)


def make_preprocess(
    config: Mapping[str, Any], vocabulary_size: int | None
) -> Callable[[Array], Array]:
    """What ``config.data`` says is to be done with inputs before a network takes them."""
    if vocabulary_size is not None:  # ids of words
        return lambda inputs: inputs
    return normalizer(config["mean"], config["std"])


def make_source(config: Mapping[str, Any]) -> Source:
    """The source that ``config.data`` describes.

    Raises:
      DataError: if it is not there, or a person's own is none.
    """
    choice, chosen = _own("data", config)
    given: dict[str, Any] = {"parts": Parts(bool(config["keep_groups_whole"]))}
    if config["data_dir"] is not None:
        given["data_dir"] = config["data_dir"]
    if config["augment"] in CROPS:
        given["crop"] = config["augment"]
    argument = own.argument_of(_selector("data"), config["source"])
    source = make(choice, *argument, chosen=chosen, given=given)
    if not isinstance(source, Source):
        raise DataError(
            f"config.data.source={config['source']!r} returns a {type(source).__name__}: a "
            "har_jax.data.Source is needed"
        )
    if own.is_own(_selector("data"), config["source"]):
        source = dataclasses.replace(source, name=config["source"])
    return source


def make_noise(config: Mapping[str, Any]) -> Noise | None:
    """The label noise that ``config.data.noise`` describes."""
    return make(NOISES[config["kind"]], chosen=config)


def make_imbalance(config: Mapping[str, Any]) -> Imbalance | None:
    """The imbalance that ``config.data.imbalance`` describes."""
    return make(IMBALANCES[config["kind"]], chosen=config)


def _selector(path: str) -> Selector:
    selector = SECTIONS[path].own
    assert selector is not None
    return selector


def _own(path: str, config: Mapping[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A section's choice, which may be a person's own, and what is said of its options."""
    selector = _selector(path)
    value = config[selector.name]
    said = config[OPTIONS] if own.is_own(selector, value) else config
    mine = own.options_of(path, selector, value)
    return own.choice_of(path, selector, value), {name: said[name] for name in mine}


def make_loss(name: str, config: config_dict.ConfigDict, counts: np.ndarray) -> Loss:
    """The loss that a method minimizes: its own, or that of ``config.loss``.

    Args:
      name: Of the method, as the config has it.
      config: A whole config.
      counts: ``[K]``, how many of the examples that are trained on have each label.
    """
    entry = own.entry_of(name)
    if entry.loss is not None:
        choice, chosen = entry.loss, method_options(name, config)
    else:
        choice, chosen = _own("loss", config.loss)
    return as_loss(make(choice, chosen=chosen, given={"counts": counts}))


def num_steps(epochs: float, num_examples: int, batch_size: int) -> int:
    """The updates that see every example ``epochs`` times, rounded up."""
    return math.ceil(epochs * num_examples / batch_size)


def make_method(
    name: str,
    config: config_dict.ConfigDict,
    labels: np.ndarray,
    num_classes: int,
    *,
    vocabulary_size: int | None = None,
    epochs: float,
    schedule_epochs: float | None = None,
    axis: str | None = None,
    reweighting: bool = True,
    known: Mapping[str, Any] | None = None,
) -> methods.Method:
    """The method of this name, to be trained for ``epochs`` on examples of these labels.

    Args:
      name: One of :data:`har_jax.methods.METHODS`, or the import path of another.
      config: A whole config.
      labels: ``[n]``, those of the examples that are trained on.
      num_classes: K.
      vocabulary_size: As :func:`make_model` takes it.
      epochs: What the learning-rate schedule stretches over.
      schedule_epochs: The epochs that the schedule is for, where training goes through it faster.
      axis: The axis that batches are split over; None if they are not.
      reweighting: Whether to weigh losses as the config says.
      known: What earlier stages found out for it, by the name of its option.
    """
    steps_per_epoch = len(labels) / config.batch_size
    total_steps = num_steps(epochs, len(labels), config.batch_size)
    loss_weights = None
    if reweighting and config.reweighting.start_epoch is not None:
        if config.reweighting.start_epoch >= epochs:
            warnings.warn(
                f"{name}: losses are never reweighted, since training ends at epoch {epochs:g} and "
                f"config.reweighting.start_epoch={config.reweighting.start_epoch:g}",
                stacklevel=2,
            )
        counts = np.bincount(labels, minlength=num_classes)
        loss_weights = methods.deferred_weights(
            methods.class_balanced_weights(counts, config.reweighting.beta),
            start_step=round(config.reweighting.start_epoch * steps_per_epoch),
        )
    model = make_model(config.model, num_classes, vocabulary_size, axis)
    per_epoch = steps_per_epoch * epochs / (schedule_epochs or epochs)
    optimizer = make_optimizer(config.optimizer, total_steps, per_epoch)
    given: dict[str, Any] = {
        "augment": AUGMENTATIONS.get(config.data.augment),  # None: of what files are decoded to
        "preprocess": make_preprocess(config.data, vocabulary_size),
        "loss_weights": loss_weights,
        "microbatches": config.microbatches,
        "axis": axis,
        **(known or {}),
    }
    entry = own.entry_of(name)
    facts = {
        "layers": lambda: make_filter(config.regularizer),
        "num_examples": lambda: len(labels),
        "steps_per_epoch": lambda: steps_per_epoch,
        "total_steps": lambda: total_steps,
        "learning_rate": lambda: make_schedule(config.optimizer, total_steps, per_epoch),
        "weight_decay": lambda: config.optimizer.weight_decay,
        "loss": lambda: make_loss(name, config, np.bincount(labels, minlength=num_classes)),
        "decayed": lambda: make(WeightDecay, chosen=config.optimizer).mask,
    }
    given |= {name: fact() for name, fact in facts.items() if entry.takes(name)}
    method = make(entry.make, model, optimizer, chosen=method_options(name, config), given=given)
    if not isinstance(method, methods.Method):
        raise ConfigError(
            f"config.methods={name!r} returns a {type(method).__name__}: a har_jax.methods.Method "
            "is needed"
        )
    return method


def method_options(name: str, config: config_dict.ConfigDict) -> dict[str, Any]:
    """What a config says of a method's options."""
    path, mine = own.options_of_method(name)
    flat = flatten(config)
    return {option: flat[join(path, option)] for option in mine}
