"""Training methods: a file each, every one a triple ``(init, step, predict)``, and a line here."""

from collections.abc import Mapping

from har_jax.methods.erm import erm
from har_jax.methods.gce import gce
from har_jax.methods.har import har
from har_jax.methods.shared import strengths
from har_jax.methods.shared.base import (
    Augment,
    Batch,
    LossWeights,
    Method,
    Metrics,
    Phases,
    Preprocess,
    StepOptions,
    TrainState,
    accuracy,
    single_network,
)
from har_jax.methods.shared.entry import Entry, Setting
from har_jax.methods.shared.reweighting import class_balanced_weights, deferred_weights
from har_jax.methods.uniform import uniform

METHODS: Mapping[str, Entry] = {
    "erm": Entry(erm),
    "uniform": Entry(har, strengths.constant, section="regularizer"),
    "har": Entry(har, strengths.adaptive, estimates=True, section="regularizer"),
    "har_random": Entry(har, strengths.at_random, estimates=True, section="regularizer"),
    "har_inverse": Entry(har, strengths.inverse, estimates=True, section="regularizer"),
    "gce": Entry(gce),
}
"""The methods that a config can name."""

__all__ = [
    "METHODS",
    "Augment",
    "Batch",
    "Entry",
    "LossWeights",
    "Method",
    "Metrics",
    "Phases",
    "Preprocess",
    "Setting",
    "StepOptions",
    "TrainState",
    "accuracy",
    "class_balanced_weights",
    "deferred_weights",
    "erm",
    "gce",
    "har",
    "single_network",
    "uniform",
]
