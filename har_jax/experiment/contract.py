"""Whether a person's own network, layers or loss are what they have to be, before training."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array
from ml_collections import config_dict

from har_jax.config import ConfigError, own
from har_jax.data import TrainingData
from har_jax.experiment.build import make_filter, make_loss, make_model, make_preprocess
from har_jax.linen import loss_and_jacobian_norm
from har_jax.linen.layers import FILTERS
from har_jax.losses import cross_entropy
from har_jax.methods.shared.branches import Mix
from har_jax.models import NETWORKS
from har_jax.tapping import TapError

_ROWS = 2


def check_own(config: config_dict.ConfigDict, data: TrainingData) -> None:
    """Traces a person's own network with a batch of the data, without computing anything.

    Raises:
      ConfigError: if it cannot take the batch, does not return ``logits [B, K]``, or has no layer
        or field that a method of the config needs; or if a loss of one's own is none.
    """
    name, layers = config.model.name, config.regularizer.layers
    _check_losses(config, data)
    if name in NETWORKS and layers in FILTERS:
        return
    model = make_model(config.model, data.num_classes, data.vocabulary_size)
    ready = make_preprocess(config.data, data.vocabulary_size)
    inputs = data.train.inputs
    dtype = getattr(inputs, "dtype", jnp.uint8)  # of images that are not decoded yet
    batch = jax.ShapeDtypeStruct((_ROWS, *inputs.shape[1:]), dtype)
    said = f"config.model.name={name!r}"
    try:
        variables = jax.eval_shape(_init(model, ready), jax.random.key(0), batch)
        logits, _ = jax.eval_shape(_train(model, ready), variables, batch)
    except Exception as error:  # a network is a program, and can fail in any way
        first = (str(error).strip().splitlines() or [""])[0]
        raise ConfigError(
            f"{said} fails with inputs of shape {batch.shape}, {batch.dtype}: "
            f"{type(error).__name__}: {first}"
        ) from error
    if "params" not in variables:
        raise ConfigError(f"{said} has no parameters: there is nothing to train")
    if any(own.entry_of(method).branches > 1 for method in config.methods):
        try:
            logits = jax.eval_shape(_mixed(model, ready), jax.random.key(0), batch)
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            raise ConfigError(
                f"{said} fails with branches=2 and a mix: {type(error).__name__}: {first}"
            ) from error
    wanted = (_ROWS, data.num_classes)
    is_array = isinstance(logits, jax.ShapeDtypeStruct)
    if not is_array or logits.shape != wanted or not jnp.issubdtype(logits.dtype, jnp.floating):
        given = f"{logits.dtype} of shape {logits.shape}" if is_array else type(logits).__name__
        raise ConfigError(
            f"{said} returns {given} for {_ROWS} inputs of {data.num_classes} classes: floating "
            f"logits of shape {wanted} are needed"
        )
    if any(own.entry_of(method).takes("layers") for method in config.methods):
        loss_and_norm = loss_and_jacobian_norm(
            lambda variables, inputs: _train(model, ready)(variables, inputs)[0],
            make_filter(config.regularizer),
        )
        labels = jnp.zeros(_ROWS, jnp.int32)
        loss = lambda logits: cross_entropy(logits, labels)
        try:
            jax.eval_shape(lambda *args: loss_and_norm(loss, *args).norm, variables, batch)
        except (TapError, ValueError) as error:
            raise ConfigError(f"{said}, config.regularizer.layers={layers!r}: {error}") from error


def _check_losses(config: config_dict.ConfigDict, data: TrainingData) -> None:
    """That losses are of each example, and that the network has the logits that they are for."""
    model = make_model(config.model, data.num_classes, data.vocabulary_size)
    counts = np.bincount(data.train.labels, minlength=data.num_classes)
    logits = jax.ShapeDtypeStruct((_ROWS, data.num_classes), jnp.float32)
    labels = jax.ShapeDtypeStruct((_ROWS,), jnp.int32)
    for name in config.methods:
        entry = own.entry_of(name)
        if not entry.takes("loss"):
            continue
        said = f"config.methods={name!r}"
        if entry.takes_any_loss:
            said += f", config.loss.name={config.loss.name!r}"
        try:
            loss = make_loss(name, config, counts)
            found = jax.eval_shape(loss, logits, labels)
        except Exception as error:  # a loss is a program, and can fail in any way
            first = (str(error).strip().splitlines() or [""])[0]
            raise ConfigError(f"{said} fails: {type(error).__name__}: {first}") from error
        shape = getattr(found, "shape", None)
        if shape != (_ROWS,) or not jnp.issubdtype(found.dtype, jnp.floating):
            raise ConfigError(
                f"{said} returns {found} for logits of shape {logits.shape}: one loss for each row "
                "is needed"
            )
        if loss.cosine is not None and not hasattr(model, "cosine"):
            raise ConfigError(
                f"{said} is a loss of cosines, and config.model.name={config.model.name!r} has no "
                "field cosine: give it one, the factor of the cosines of features and the classes' "
                "weights that its logits are then to be"
            )


def _init(model: nn.Module, ready: Callable[[Array], Array]) -> Callable[..., Any]:
    return lambda key, inputs: model.init(key, ready(inputs), train=False)


def _mixed(model: nn.Module, ready: Callable[[Array], Array]) -> Callable[..., Any]:
    def apply(key, inputs):
        two, images = model.clone(branches=2), ready(inputs)
        variables = two.init(key, images, train=False)
        mutable = [name for name in variables if name != "params"]
        rngs, mix = {"dropout": key}, Mix(images, jnp.ones(()))
        return two.apply(variables, images, train=True, mutable=mutable, rngs=rngs, mix=mix)[0]

    return apply


def _train(model: nn.Module, ready: Callable[[Array], Array]) -> Callable[..., Any]:
    def apply(variables, inputs):
        mutable = [name for name in variables if name != "params"]
        rngs = {"dropout": jax.random.key(0)}
        return model.apply(variables, ready(inputs), train=True, mutable=mutable, rngs=rngs)

    return apply
