"""What methods are given by earlier stages: a noise rate, other labels, a network to start from."""

import importlib.util
import json

import jax
import numpy as np
import pytest

from har_jax import config as har_config
from har_jax.data import Examples, TrainingData
from har_jax.estimation.noise_rate import noise_rate, warn_of_lost_classes
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.artefacts import Artefacts
from har_jax.methods import METHODS, Setting
from har_jax.options import make
from har_jax.report.given import given, lines, read_given
from har_jax.system.files import read_arrays


def noisy(size=900, rate=0.2, seed=0):
    """Labels of three classes, some of them wrong, and sure predictions of the true ones."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 3, size)
    wrong = rng.random(size) < rate
    labels = np.where(wrong, (true + 1) % 3, true).astype(np.int32)
    logits = 4 * np.eye(3)[true] + rng.normal(size=(size, 3))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return labels, wrong, probabilities


def said_by(probabilities, labels):
    own = probabilities[np.arange(len(labels)), labels]
    return OutOfSample(
        index=np.arange(len(labels)),
        fold=np.zeros(len(labels), int),
        prediction=probabilities.argmax(axis=1),
        loss=-np.log(own),
        confidence=probabilities.max(axis=1),
    )


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_the_noise_rate_is_found(rate):
    labels, wrong, probabilities = noisy(size=3000, rate=rate)
    assert noise_rate(said_by(probabilities, labels), labels) == pytest.approx(
        wrong.mean(), abs=0.03
    )


def test_a_class_that_a_model_is_less_sure_of_is_not_noisy_for_that():
    # Of class 1 the model is so unsure that it calls a third of it class 0.
    labels = np.repeat([0, 1], 300).astype(np.int32)
    zero = np.where(labels == 0, 0.95, np.where(np.arange(600) % 3 == 0, 0.6, 0.4))
    probabilities = np.stack([zero, 1 - zero], axis=1)
    said = said_by(probabilities, labels)
    assert np.mean(said.prediction != labels) == pytest.approx(1 / 6)
    assert noise_rate(said, labels) == 0


def test_confident_learning_drops_or_relabels_what_is_wrong():
    labels, wrong, probabilities = noisy()
    probabilities[:5] = np.nan  # could not be read: they stay as they are
    setting = Setting(labels, labels, probabilities, seed=0)
    entry = METHODS["confident_learning"]
    dropped = make(entry.labels, setting, chosen={}) < 0
    assert not np.any(dropped[:5])
    assert np.mean(wrong[dropped]) > 0.9
    assert np.mean(dropped[5:][wrong[5:]]) > 0.8
    changed = make(entry.labels, setting, chosen={"relabel": True})
    assert np.all((changed != labels) == dropped)
    assert np.all(changed[dropped] == probabilities[dropped].argmax(axis=1))


def test_classes_that_are_nearly_gone_are_named():
    labels = np.repeat([0, 1], 10)
    trained = np.where(np.arange(20) < 11, labels, -1)  # one of the second class
    with pytest.warns(UserWarning, match=r"labels of 1 of 2 classes for wrong, 'b' \(9 of 10\)"):
        warn_of_lost_classes("confident_learning", labels, trained, ("a", "b"))


def test_what_was_given_is_told(tmp_path):
    flipped = np.array([True, True, False, False])
    train = Examples(np.zeros((4, 1)), np.array([0, 1, 1, 0], np.int32))
    true = np.where(flipped, 1 - train.labels, train.labels)
    data = TrainingData(train, true, train, ("a", "b"), ("a", "b"), (), ())
    assert given(train.labels, None, data) == {}
    told = {
        "co_teaching": given(train.labels, 0.25, data),
        "confident_learning": given(np.array([-1, 1, -1, 1]), None, data),
    }
    assert list(lines(told)) == [
        "co_teaching was given a noise rate of 25.0%, estimated",
        "confident_learning: 2 left out and 1 relabelled of the training examples: 33% of these "
        "are mislabelled, and 50% of all that are mislabelled are among them",
    ]
    assert list(lines({"l2rw": {"meta": 100}})) == [
        "l2rw learned from 100 examples that are known to be labelled rightly, beside the training "
        "set"
    ]
    assert read_given(tmp_path) == {}
    (tmp_path / "given.json").write_text(json.dumps(told["co_teaching"]))
    assert read_given(tmp_path) == {"noise_rate": 0.25}
    (tmp_path / "given.json").write_text("{")
    with pytest.raises(OSError, match=r"given.json is damaged"):
        read_given(tmp_path)


def config(*methods, **changes):
    found = har_config.base()
    found.methods = methods
    found.update_from_flattened_dict(changes)
    return found


@pytest.mark.parametrize(
    ("methods", "changes", "message"),
    [
        (
            ("dmi",),
            {"microbatches": 2},
            "config.methods='dmi' cannot be combined with config.microbatches=2: its loss is one",
        ),
        (("co_teaching",), {"microbatches": 2}, "'co_teaching' cannot be combined"),
        (
            ("confident_learning",),
            {},
            "needs what is said out of sample of every example: set config.pretrain.folds",
        ),
        (
            ("co_teaching",),
            {"method.co_teaching.noise_rate": 0.99, "batch_size": 32},
            "noise_rate=0.99 leaves no example of config.batch_size=32: take a larger batch",
        ),
        (("co_teaching",), {"method.co_teaching.noise_rate": 1.0}, "must be at least 0 and below"),
        (("elr",), {"method.elr.beta": 1.0}, "must be at least 0 and below 1"),
        (
            ("confident_learning",),
            {"method.confident_learning.filter_by": "none"},
            "take one of prune_by_noise_rate, ",
        ),
    ],
)
def test_what_methods_need_is_told_in_one_line(methods, changes, message):
    with pytest.raises(har_config.ConfigError, match=message) as caught:
        har_config.validate(config(*methods, **changes))
    assert "\n" not in str(caught.value)


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(har_config.ConfigError, match=r"needs cleanlab, .*: pip install"):
        har_config.validate(config("confident_learning", **{"pretrain.folds": 2}))


def test_a_noise_rate_that_is_given_needs_no_estimate(tmp_path):
    for rate, estimates in ((None, True), (0.2, False)):
        found = config("co_teaching", **{"method.co_teaching.noise_rate": rate})
        har_config.validate(found)
        artefacts = Artefacts(found, tmp_path)
        assert artefacts.estimates == estimates
        keys = artefacts.train["co_teaching"].fingerprint
        assert ("pretrain.epochs" in keys) == estimates


@pytest.mark.slow
def test_stages_give_methods_what_they_need(tmp_path, cut_after_saving, capsys):
    found = config("erm", "dmi", "co_teaching", "elr", "confident_learning")
    found.data.train_size = 300
    found.data.noise.kind, found.data.noise.groups = "groups", ((3, 8),)
    found.data.noise.rate = 0.4
    found.pretrain.folds = 2
    found.devices, found.batch_size, found.checkpoint_every = 1, 32, 20
    found.model.widths = (4,)
    found.pretrain.epochs, found.train.epochs = 12.0, 4.0
    har_config.validate(found)
    # Cut while the network is trained that DMI starts from; goes on from there.
    cut_after_saving(20, Experiment(found, tmp_path).run, "start")
    experiment = Experiment(found, tmp_path)
    experiment.run()
    train = tmp_path / "train"
    rate = json.loads((train / "co_teaching" / "given.json").read_text())["noise_rate"]
    assert 0 < rate < 1
    dropped = json.loads((train / "confident_learning" / "given.json").read_text())
    labels = read_arrays(train / "confident_learning" / "evaluation.npz")["trained_label"]
    assert dropped["left_out"] == np.sum(labels < 0) > 0
    artefacts = Artefacts(found, tmp_path)
    start = artefacts.started()[1].variables
    plain = artefacts.trained("erm").state
    assert jax.tree.all(jax.tree.map(np.array_equal, start, plain.variables))
    state = artefacts.trained("dmi").state
    assert not jax.tree.all(jax.tree.map(np.array_equal, state.variables, start))
    told = capsys.readouterr().out
    assert f"co_teaching was given a noise rate of {100 * rate:.1f}%, estimated" in told
    experiment.run("predict")
    assert (tmp_path / "predict" / "co_teaching.csv").exists()
