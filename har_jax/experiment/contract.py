"""Whether a person's own network, layers or loss are what they have to be, before training."""

from collections.abc import Callable, Iterator
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
from har_jax.losses import Loss, cross_entropy
from har_jax.methods.shared.branches import Mix
from har_jax.methods.shared.losses import has_cosine, network_for
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
    model = make_model(config.model, data.num_classes, data.vocabulary_size)
    losses = list(_checked_losses(config, data, model))
    if name in NETWORKS and layers in FILTERS:
        return
    ready = make_preprocess(config.data, data.vocabulary_size)
    inputs = data.train.inputs
    dtype = getattr(inputs, "dtype", jnp.uint8)  # of images that are not decoded yet
    batch = jax.ShapeDtypeStruct((_ROWS, *inputs.shape[1:]), dtype)
    said = f"config.model.name={name!r}"
    variables = _check_network(said, model, ready, batch, data.num_classes)
    for loss in losses:
        if loss.cosine is not None:
            told = f"{said} with cosine={loss.cosine:g}"
            _check_network(told, network_for(model, loss), ready, batch, data.num_classes)
    if any(own.entry_of(method).branches > 1 for method in config.methods):
        told, two = f"{said} with branches=2", model.clone(branches=2)
        _check_network(told, two, ready, batch, data.num_classes, mixed=True)
    if any(own.entry_of(method).takes("layers") for method in config.methods):
        loss_and_norm = loss_and_jacobian_norm(
            _applied(model, ready), make_filter(config.regularizer)
        )
        labels = jnp.zeros(_ROWS, jnp.int32)
        loss_of = lambda logits: cross_entropy(logits, labels)
        try:
            jax.eval_shape(lambda *args: loss_and_norm(loss_of, *args).norm, variables, batch)
        except (TapError, ValueError) as error:
            raise ConfigError(f"{said}, config.regularizer.layers={layers!r}: {error}") from error


def _check_network(
    said: str,
    model: nn.Module,
    ready: Callable[[Array], Array],
    batch: jax.ShapeDtypeStruct,
    num_classes: int,
    *,
    mixed: bool = False,
) -> Any:
    """The shapes of its variables, if it returns logits in training and in prediction."""
    init = lambda key, inputs: model.init(key, ready(inputs), train=False)
    variables = _shape_of(said, batch, init, jax.random.key(0), batch)
    if "params" not in variables:
        raise ConfigError(f"{said} has no parameters: there is nothing to train")
    for told, apply in (
        (said, _applied(model, ready, mixed=mixed)),
        (f"{said} in prediction", lambda v, x: model.apply(v, ready(x), train=False)),
    ):
        found = _shape_of(told, batch, apply, variables, batch)
        _check_shape(told, found, (_ROWS, num_classes), f"{_ROWS} inputs of {num_classes} classes")
    return variables


def _applied(
    model: nn.Module, ready: Callable[[Array], Array], *, mixed: bool = False
) -> Callable[..., Any]:
    """What it returns in training, of two branches with a mix."""

    def apply(variables, inputs):
        images = ready(inputs)
        options: dict[str, Any] = {"mix": Mix(images, jnp.ones(()))} if mixed else {}
        mutable = [name for name in variables if name != "params"]
        rngs = {"dropout": jax.random.key(0)}
        outputs, _ = model.apply(
            variables, images, train=True, mutable=mutable, rngs=rngs, **options
        )
        return outputs

    return apply


def _checked_losses(
    config: config_dict.ConfigDict, data: TrainingData, model: nn.Module
) -> Iterator[Loss]:
    """The losses of the methods, if they are of each example and there are logits for them."""
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
        except Exception as error:  # a loss is a program, and can fail in any way
            raise _failed(said, error, logits) from error
        if loss.cosine is not None and not has_cosine(model):
            raise ConfigError(
                f"{said} is a loss of cosines, and config.model.name={config.model.name!r} has no "
                "field cosine: give it one, the factor of the cosines of features and the classes' "
                "weights that its logits are then to be"
            )
        given = f"logits of shape {logits.shape}"
        _check_shape(said, _shape_of(said, logits, loss, logits, labels), (_ROWS,), given)
        told = f"{said}: predict"
        _check_shape(told, _shape_of(told, logits, loss.predict, logits), logits.shape, given)
        yield loss


def _shape_of(
    said: str, inputs: jax.ShapeDtypeStruct, fun: Callable[..., Any], *arguments: Any
) -> Any:
    """What a person's own function returns, without computing anything."""
    try:
        return jax.eval_shape(fun, *arguments)
    except Exception as error:  # of any kind that a program can raise
        raise _failed(said, error, inputs) from error


def _failed(said: str, error: Exception, inputs: jax.ShapeDtypeStruct) -> ConfigError:
    first = (str(error).strip().splitlines() or [""])[0]
    return ConfigError(
        f"{said} fails with inputs of shape {inputs.shape}, {inputs.dtype}: "
        f"{type(error).__name__}: {first}"
    )


def _check_shape(said: str, found: Any, wanted: tuple[int, ...], given: str) -> None:
    is_array = isinstance(found, jax.ShapeDtypeStruct)
    if is_array and found.shape == wanted and jnp.issubdtype(found.dtype, jnp.floating):
        return
    told = f"{found.dtype} of shape {found.shape}" if is_array else type(found).__name__
    raise ConfigError(
        f"{said} returns {told} for {given}: floating numbers of shape {wanted} are needed"
    )
