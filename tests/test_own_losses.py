"""Losses by the config: those of the program with har, and a person's own by import path."""

import re

import numpy as np
import pytest

from configs import digits
from har_jax import config as har_config
from har_jax.experiment import fingerprints
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.build import make_loss
from har_jax.experiment.workdir import StageError

OWN = """\
import dataclasses
from typing import Annotated

import flax.linen as nn
import jax.numpy as jnp
import numpy as np

from har_jax.losses import Loss, cross_entropy
from har_jax.options import Option


@dataclasses.dataclass(frozen=True, eq=False)
class Shifted(Loss):
    counts: np.ndarray
    by: Annotated[float, Option("how far", ge=0)] = 1.0

    def __call__(self, logits, labels):
        return cross_entropy(logits + self.by * jnp.log1p(jnp.asarray(self.counts)), labels)


def smoothed(*, by=0.1):
    def loss(logits, labels):
        return (1 - by) * cross_entropy(logits, labels) - by * jnp.mean(logits, axis=-1)

    return loss


def of_the_batch():
    return lambda logits, labels: cross_entropy(logits, labels).mean()


class OfOneClass(Loss):
    def __call__(self, logits, labels):
        return cross_entropy(logits, labels)

    def predict(self, logits):
        return logits[:, :1]


def needy(labels, names):
    return cross_entropy


class Wider(nn.Module):
    num_classes: int
    cosine: float | None = None

    @nn.compact
    def __call__(self, inputs, *, train):
        width = self.num_classes + (self.cosine is not None)
        return nn.Dense(width)(nn.LayerNorm()(inputs.reshape(len(inputs), -1)))


class Linear(nn.Module):
    cosine = None  # of the class, and no field
    num_classes: int

    @nn.compact
    def __call__(self, inputs, *, train):
        return nn.Dense(self.num_classes)(nn.LayerNorm()(inputs.reshape(len(inputs), -1)))
"""


@pytest.fixture(autouse=True)
def own(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_losses.py").write_text(OWN)
    monkeypatch.syspath_prepend(folder)


def tiny(*methods, **changes):
    config = digits.get_config()
    config.methods = methods
    config.model.widths = (8,)
    config.data.train_size = 300
    config.pretrain.epochs = config.train.epochs = 1.0
    config.devices = 1
    for key, value in changes.items():
        config.update_from_flattened_dict({key.replace("__", "."): value})
    return config


def checked(config):
    har_config.validate(config)
    return config


@pytest.mark.slow
def test_own_losses_have_options_and_are_trained(tmp_path):
    config = tiny("uniform", loss__name="own_losses:Shifted")
    assert dict(checked(config).loss.options) == {"by": 1.0}
    config.loss.options.by = 0.5
    counts = np.arange(10)
    assert make_loss("uniform", config, counts).by == 0.5
    assert make_loss("uniform", config, counts).counts is counts
    Experiment(config, tmp_path).run()
    config.loss.options.by = 0.25
    with pytest.raises(StageError, match=r"loss.options.by was 0.5, now 0.25"):
        Experiment(config, tmp_path).run()
    smoothed = checked(tiny("uniform", loss__name="own_losses:smoothed"))
    assert make_loss("uniform", smoothed, counts).predict(0) == 0  # a function will do


def test_who_reads_the_loss():
    config = checked(tiny("erm", "ldam", "har", loss__name="focal", loss__gamma=2.0))
    counts = np.arange(1, 11)
    assert make_loss("har", config, counts).gamma == 2
    assert make_loss("ldam", config, counts).max_margin == 0.5  # of method.ldam
    keys = {name: fingerprints.of_method(name, config) for name in config.methods}
    assert {name for name in keys if "loss" in keys[name]} == {"har"}
    assert "loss" not in fingerprints.PRETRAIN


@pytest.mark.parametrize(
    ("methods", "changes", "message"),
    [
        (("erm", "ldam"), {"loss__name": "ldam"}, "config.loss.name='ldam' is not read by config."
                                                  "methods=('erm', 'ldam'): add har or uniform"),
        (("har",), {"loss__name": "focal", "loss__q": 0.5}, "config.loss.q=0.5 is not read by "),
        (("har",), {"loss__name": "focal", "loss__gamma": -1.0}, "config.loss.gamma=-1.0 is imp"),
        (("har",), {"loss__name": "hinge"}, "config.loss.name='hinge' is unknown: take one of "),
        (("har",), {"loss__name": "own_losses:needy"}, "is no choice of a loss: a class of"),
        (("har",), {"loss__name": "own_losses:Shifted", "loss__options": {"at": 1.0}}, "by"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(methods, changes, message):
    with pytest.raises(har_config.ConfigError, match=re.escape(message)):
        checked(tiny(*methods, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss__name": "own_losses:OfOneClass"},
         r"loss.name='own_losses:OfOneClass': predict returns float32 of shape \(2, 1\)"),
        ({"loss__name": "ldam", "model__name": "own_losses:Wider", "model__widths": None},
         r"config.model.name='own_losses:Wider' with cosine=30 returns float32 of shape \(2, 11\)"),
        ({"loss__name": "own_losses:of_the_batch"},
         r"returns float32 of shape \(\) for logits of shape \(2, 10\): floating numbers of shape"),
        ({"loss__name": "ldam", "model__name": "own_losses:Linear", "model__widths": None},
         "has no field cosine: give it one"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_data_is_told_before_training(tmp_path, changes, message):
    config = checked(tiny("har", **changes))
    with pytest.raises(har_config.ConfigError, match=message):
        Experiment(config, tmp_path).run()
    assert not list(tmp_path.glob("*/*"))
