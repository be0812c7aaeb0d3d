"""Optimizers and learning-rate schedules by name."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import optax

# The names that a config can choose, with the options that each reads.
OPTIMIZERS: Mapping[str, Sequence[str]] = {"sgd": ("momentum",), "adam": ()}
SCHEDULES: Mapping[str, Sequence[str]] = {
    "constant": (),
    "cosine": (),
    "step": ("decay_epochs", "decay_factor"),
}


def make_schedule(config: Mapping[str, Any], total_steps: int, steps_per_epoch: float):
    """A learning rate by step: ``constant``, ``cosine`` to 0, or ``step``.

    ``step`` multiplies the rate by ``decay_factor`` at each of ``decay_epochs``.
    """
    rate = config["learning_rate"]
    if config["schedule"] == "cosine":
        return optax.cosine_decay_schedule(rate, total_steps)
    if config["schedule"] == "step":
        scales: dict[int, float] = {}
        for epoch in config["decay_epochs"]:  # two of them may fall on one step
            step = round(epoch * steps_per_epoch)
            scales[step] = scales.get(step, 1.0) * config["decay_factor"]
        return optax.piecewise_constant_schedule(rate, scales)
    return optax.constant_schedule(rate)


def make_optimizer(
    config: Mapping[str, Any], total_steps: int, steps_per_epoch: float
) -> optax.GradientTransformation:
    """SGD with momentum (0.9 where it is not set) or Adam, after weight decay.

    The decay is added to every gradient, over all parameters: the coupled form of PyTorch's
    SGD, which the authors' code uses.
    """
    schedule = make_schedule(config, total_steps, steps_per_epoch)
    if config["name"] == "sgd":
        momentum = 0.9 if config["momentum"] is None else config["momentum"]
        rule = optax.sgd(schedule, momentum=momentum)
    else:
        rule = optax.adam(schedule)
    return _promoting(optax.chain(optax.add_decayed_weights(config["weight_decay"]), rule))


def _promoting(rule: optax.GradientTransformation) -> optax.GradientTransformation:
    """The same under strict promotion of dtypes, where Optax mixes a rate with a count of steps."""

    def promote(fun):
        @functools.wraps(fun)
        def call(*args, **kwargs):
            with jax.numpy_dtype_promotion("standard"):
                return fun(*args, **kwargs)

        return call

    return optax.GradientTransformation(promote(rule.init), promote(rule.update))
