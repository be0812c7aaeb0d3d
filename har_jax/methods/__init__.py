"""Training methods: every one a triple ``(init, step, predict)``, and a line here.

A file each, but for those that are plain training with a loss of their own.
"""

from collections.abc import Mapping

from har_jax.losses import LOSSES, class_balanced_weights
from har_jax.methods.bbn import bbn
from har_jax.methods.co_teaching import co_teaching
from har_jax.methods.confident_learning import confident_labels
from har_jax.methods.dmi import dmi
from har_jax.methods.elr import elr
from har_jax.methods.erm import erm
from har_jax.methods.har import har
from har_jax.methods.incv import incv
from har_jax.methods.l2rw import l2rw
from har_jax.methods.mentornet import mentornet
from har_jax.methods.mw_net import mw_net
from har_jax.methods.plain import plain
from har_jax.methods.shared import strengths
from har_jax.methods.shared.entry import Entry, Setting
from har_jax.methods.shared.memory import Remembered
from har_jax.methods.shared.method import Batch, Method, Metrics, Phases, TrainState
from har_jax.methods.shared.reweighting import deferred_weights
from har_jax.methods.shared.selecting import CrossValidation
from har_jax.methods.shared.single_network import (
    Augment,
    LossWeights,
    Preprocess,
    StepOptions,
    accuracy,
    single_network,
)
from har_jax.methods.uniform import uniform

METHODS: Mapping[str, Entry] = {
    "erm": Entry(erm),
    "uniform": Entry(har, strengths.constant, section="regularizer"),
    "har": Entry(har, strengths.adaptive, estimates=True, section="regularizer"),
    "har_random": Entry(har, strengths.at_random, estimates=True, section="regularizer"),
    "har_inverse": Entry(har, strengths.inverse, estimates=True, section="regularizer"),
    "gce": Entry(plain, loss=LOSSES["generalized_cross_entropy"]),
    "dmi": Entry(dmi, starts=True, whole_batches=True),
    "co_teaching": Entry(co_teaching, whole_batches=True),
    "elr": Entry(elr),
    "confident_learning": Entry(erm, labels=confident_labels, requires=("cleanlab",)),
    "incv": Entry(incv, selects=CrossValidation, whole_batches=True),
    "mentornet": Entry(
        mentornet,
        sees_meta=lambda options: options["curriculum"] == "data_driven",
        whole_batches=True,
    ),
    "l2rw": Entry(l2rw, sees_meta=lambda options: True, whole_batches=True),
    "mw_net": Entry(mw_net, sees_meta=lambda options: True, whole_batches=True),
    "focal": Entry(plain, loss=LOSSES["focal"]),
    "cb_focal": Entry(plain, loss=LOSSES["class_balanced_focal"]),
    "ldam": Entry(plain, loss=LOSSES["ldam"]),
    "balanced_softmax": Entry(plain, loss=LOSSES["balanced_softmax"]),
    "logit_adjustment": Entry(plain, loss=LOSSES["logit_adjusted"]),
    "bbn": Entry(bbn, sees_reversed=True, branches=2),
}
"""The methods that a config can name."""

__all__ = [
    "METHODS",
    "Augment",
    "Batch",
    "CrossValidation",
    "Entry",
    "LossWeights",
    "Method",
    "Metrics",
    "Phases",
    "Preprocess",
    "Remembered",
    "Setting",
    "StepOptions",
    "TrainState",
    "accuracy",
    "bbn",
    "class_balanced_weights",
    "co_teaching",
    "deferred_weights",
    "dmi",
    "elr",
    "erm",
    "har",
    "incv",
    "l2rw",
    "mentornet",
    "mw_net",
    "plain",
    "single_network",
    "uniform",
]
