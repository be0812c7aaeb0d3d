"""What a method has to do for a loss beside minimizing it."""

import dataclasses

from flax import linen as nn

from har_jax.losses import Loss
from har_jax.methods.shared.method import Method


def network_for(model: nn.Module, loss: Loss) -> nn.Module:
    """The network that a loss is for.

    Of a loss of cosines it is the model with its field ``cosine`` set to their factor. A model
    without such a field is taken as it is, and its logits as that.
    """
    if loss.cosine is None or not has_cosine(model):
        return model
    return model.clone(cosine=loss.cosine)


def has_cosine(model: nn.Module) -> bool:
    """Whether a model has a field ``cosine``, the factor of the cosines that its logits are."""
    return any(field.name == "cosine" for field in dataclasses.fields(model))


def predicting_by(method: Method, loss: Loss) -> Method:
    """The method with its predictions as the loss has them."""
    return method._replace(
        predict=lambda variables, inputs: loss.predict(method.predict(variables, inputs))
    )
