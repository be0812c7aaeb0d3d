"""From a config's sections to models, optimizers and methods."""

import math
import os
import pathlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array
from ml_collections import config_dict

from har_jax import methods
from har_jax.config import MODELS
from har_jax.data.apart import Parts
from har_jax.data.decoding import CROPS
from har_jax.data.encoded import Reading
from har_jax.data.hold_out import HoldOut
from har_jax.data.images import AUGMENTATIONS, normalizer
from har_jax.data.sources import Place
from har_jax.data.texts import Encoding
from har_jax.linen.layers import FILTERS
from har_jax.models import BiLSTM, CifarResNet, ConvNet, ImageNetResNet, InceptionResNetV2
from har_jax.registry import METHODS
from har_jax.train.optimizer import make_optimizer
from har_jax.train.predictions import describe

_NETWORKS: Mapping[str, type[nn.Module]] = {
    "convnet": ConvNet,
    "cifar_resnet": CifarResNet,
    "imagenet_resnet": ImageNetResNet,
    "inception_resnet_v2": InceptionResNetV2,
    "bilstm": BiLSTM,
}


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
    options = {key: config[key] for key in MODELS[config["name"]] if config[key] is not None}
    if options.get("norm") == "sync_batch" and axis is None:  # on one device it is the same
        options["norm"] = "batch"
    if vocabulary_size is not None:
        options["vocabulary_size"] = vocabulary_size
    network = _NETWORKS[config["name"]]
    return network(num_classes, dtype=jnp.dtype(config["dtype"]), **options)


def make_preprocess(
    config: Mapping[str, Any], vocabulary_size: int | None
) -> Callable[[Array], Array]:
    """What ``config.data`` says is to be done with inputs before a network takes them."""
    if vocabulary_size is not None:  # ids of words
        return lambda inputs: inputs
    return normalizer(config["mean"], config["std"])


def make_place(config: Mapping[str, Any]) -> Place:
    """Where ``config.data`` says that data are, and how they are read."""
    path = lambda key: pathlib.Path(os.path.expanduser(config[key])) if config[key] else None
    given = lambda *keys: {key: config[key] for key in keys if config[key] is not None}
    reading = given("workers", "on_unreadable")
    if config["image_size"] is not None:
        reading["size"] = config["image_size"]
    if config["augment"] in CROPS:
        reading["crop"] = config["augment"]
    return Place(
        data_dir=path("data_dir"),
        root=path("root"),
        table=path("table"),
        imagenet=config["imagenet"],
        reading=Reading(**reading),
        encoding=Encoding(**given("vocabulary_size", "length", "words")),
        hold_out=HoldOut(config["test_fraction"], Parts(bool(config["keep_groups_whole"]))),
        **given("subset", "has_splits", "on_missing_label"),
    )


def make_describe(
    config: config_dict.ConfigDict, num_classes: int, vocabulary_size: int | None
) -> Callable[..., Any]:
    """What is said of every example by ``--stage=predict``."""
    return describe(
        make_model(config.model, num_classes, vocabulary_size),
        make_preprocess(config.data, vocabulary_size),
        FILTERS[config.regularizer.layers],
        config.regularizer.reduction,
    )


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
    axis: str | None = None,
    reweighting: bool = True,
) -> methods.Method:
    """The method of this name, to be trained for ``epochs`` on examples of these labels.

    Args:
      name: One of :data:`har_jax.registry.METHODS`.
      config: A whole config.
      labels: ``[n]``, those of the examples that are trained on.
      num_classes: K.
      vocabulary_size: As :func:`make_model` takes it.
      epochs: What the learning-rate schedule stretches over.
      axis: The axis that batches are split over; None if they are not.
      reweighting: Whether to weigh losses as the config says.
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
    optimizer = make_optimizer(config.optimizer, total_steps, steps_per_epoch)
    options: dict[str, Any] = {
        "augment": AUGMENTATIONS.get(config.data.augment),  # None: of what files are decoded to
        "preprocess": make_preprocess(config.data, vocabulary_size),
        "loss_weights": loss_weights,
        "microbatches": config.microbatches,
        "axis": axis,
    }
    return METHODS[name].make(model, optimizer, config.regularizer, **options)
