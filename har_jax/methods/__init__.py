"""Training methods: one file each, every one a triple ``(init, step, predict)``."""

from har_jax.methods.base import (
    Augment,
    Batch,
    LossWeights,
    Method,
    Metrics,
    Preprocess,
    StepOptions,
    TrainState,
)
from har_jax.methods.erm import erm
from har_jax.methods.har import har
from har_jax.methods.reweighting import class_balanced_weights, deferred_weights
from har_jax.methods.uniform import uniform

__all__ = [
    "Augment",
    "Batch",
    "LossWeights",
    "Method",
    "Metrics",
    "Preprocess",
    "StepOptions",
    "TrainState",
    "class_balanced_weights",
    "deferred_weights",
    "erm",
    "har",
    "uniform",
]
