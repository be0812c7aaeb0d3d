"""Neighbourhoods in place of labels: what they are, what noise they show, and what is found so."""

import pathlib
import re
import shutil
import warnings

import jax
import numpy as np
import pytest
from cleanlab.count import compute_confident_joint
from flax import linen as nn
from scipy.special import log_softmax, softmax

from har_jax.config import ConfigError
from har_jax.estimation.calibration import calibrated, scaled, temperature
from har_jax.estimation.groupings import GROUPINGS
from har_jax.estimation.noises import NOISES
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.artefacts import Artefacts
from har_jax.experiment.workdir import StageError
from har_jax.models.layers.classifier import CosineClassifier, features_of
from har_jax.strength import (
    adaptation,
    group_statistics,
    mixture_statistics,
    neighbour_statistics,
    noise_frequency_tau,
)
from har_jax.system.files import read_arrays
from tests.test_out_of_sample import small

FIELDS = ("count", "validation_count", "observed_error", "standard_error", "error", "frequency")


class TestMixtures:
    @pytest.mark.parametrize("smoothing", [0.0, 3.0, None])
    def test_of_whole_shares_are_groups(self, smoothing):
        rng = np.random.default_rng(0)
        groups, errors = rng.integers(0, 4, 200), rng.integers(0, 2, 90)
        shares = np.eye(4)[groups]
        mixed = mixture_statistics(shares, shares[:90], errors, smoothing=smoothing)
        plain = group_statistics(groups, groups[:90], errors, smoothing=smoothing)
        for field in (*FIELDS, "tau"):
            np.testing.assert_allclose(getattr(mixed, field), getattr(plain, field), rtol=1e-12)

    def test_by_a_loop(self):
        rng = np.random.default_rng(1)
        shares, errors = rng.dirichlet(np.ones(3), 20), rng.random(12)
        s = mixture_statistics(shares, shares[:12], errors)
        for group in range(3):
            own = [shares[i, group] for i in range(12)]
            noise = sum(p * e for p, e in zip(own, errors, strict=True)) / sum(own)
            frequency = sum(shares[i, group] for i in range(20)) / 20
            np.testing.assert_allclose(s.error[group], noise)
            np.testing.assert_allclose(s.tau[group], noise_frequency_tau(noise, frequency))

    def test_vague_shares_are_shrunk_more(self):
        """A group of 100 halves is as certain as one of 100 examples, and of 100 tenths as well."""
        sharp = np.repeat(np.eye(2), 50, axis=0)
        errors = np.repeat([0.0, 1.0], 50) == np.tile([0.0, 1.0], 50)
        vague = 0.5 + 0.1 * (sharp - 0.5)
        of = lambda shares: mixture_statistics(shares, shares, errors)
        np.testing.assert_allclose(
            of(vague).standard_error, of(np.full((100, 2), 0.5)).standard_error, rtol=0.05
        )
        assert np.all(of(vague).standard_error < of(sharp).standard_error)

    @pytest.mark.parametrize(
        ("shares", "validation", "errors", "message"),
        [
            (np.ones(3), np.eye(2), np.ones(2), r"shares must be of shape \[n, G\]; got \[3\]"),
            (np.eye(2) * 2, np.eye(2), np.ones(2), "shares of example 0 are .2.0, 0.0.: numbers"),
            (np.eye(2), np.eye(3), np.ones(3), "of 2 groups, validation_shares of 3"),
            (np.eye(2), np.eye(2), np.ones(3), "3 validation errors for shares of 2 examples"),
        ],
    )
    def test_errors_name_the_value(self, shares, validation, errors, message):
        with pytest.raises(ValueError, match=message):
            mixture_statistics(shares, validation, errors)


class TestNeighbours:
    def test_by_a_loop(self):
        rng = np.random.default_rng(2)
        features = rng.normal(size=(30, 3))
        spaces = np.repeat([0, 1], [20, 10])
        validation = np.sort(rng.permutation(30)[:17])
        errors = rng.random(17)
        s = neighbour_statistics(
            features, validation, errors, neighbours=5, spaces=spaces, smoothing=0
        )
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        error_of = dict(zip(validation.tolist(), errors, strict=True))
        for space in (0, 1):
            rows = np.flatnonzero(spaces == space).tolist()
            near = lambda i, j: float(unit[i] @ unit[j])
            fifth = [sorted((near(i, j) for j in rows), reverse=True)[4] for i in rows]
            within = np.median(fifth) - 1e-6
            for i in rows:
                known = sorted((j for j in rows if j in error_of), key=lambda j: -near(i, j))[:5]
                noise = np.mean([error_of[j] for j in known])
                frequency = np.mean([near(i, j) >= within for j in rows])
                np.testing.assert_allclose(s.error[i], noise)
                np.testing.assert_allclose(s.frequency[i], frequency)
                np.testing.assert_allclose(s.tau[i], noise_frequency_tau(noise, frequency))

    def test_lengths_do_not_matter_and_zeros_are_no_trouble(self):
        rng = np.random.default_rng(3)
        features, errors = rng.normal(size=(25, 4)), rng.integers(0, 2, 25)
        of = lambda f: neighbour_statistics(f, np.arange(25), errors, neighbours=4)
        longer = features * rng.uniform(1, 9, size=(25, 1))
        np.testing.assert_allclose(of(features).tau, of(longer).tau)
        for scale in (1e-30, 1e30):  # whose squares are 0 and infinite in float32
            np.testing.assert_array_equal(of(features).tau, of(features * scale).tau)
        assert np.all(np.isfinite(of(np.zeros((25, 4))).tau))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"features": np.ones(3)}, r"features must be of shape \[n, d\]"),
            ({"features": np.full((3, 2), np.inf)}, "features of example 0 are not finite"),
            ({"neighbours": 0}, "neighbours=0 must be positive"),
            ({"validation": np.array([0, -1])}, "has -1, and there are 3 examples, from 0 on"),
            ({"validation": np.array([3, 1])}, "has 3, and there are 3 examples"),
            ({"validation": np.array([1, 1])}, "has 1 more than once"),
            ({"validation_errors": np.ones(3)}, "3 validation errors for 2 validation examples"),
            ({"spaces": np.array([0, 0, 1])}, "space 1 has no validation example"),
        ],
    )
    def test_errors_name_the_value(self, changes, message):
        given = {
            "features": np.ones((3, 2)),
            "validation": np.array([0, 1]),
            "validation_errors": np.zeros(2),
            "neighbours": 2,
        }
        with pytest.raises(ValueError, match=message):
            neighbour_statistics(**(given | changes))


def test_probabilities_of_errors_are_worth_more_than_errors():
    """Shrunk as far as they are uncertain, which they are less."""
    rng = np.random.default_rng(4)
    better = []
    for _ in range(50):
        true = rng.beta(4, 8, size=12)
        groups = np.repeat(np.arange(12), 8)
        said = np.clip(true[groups] + rng.normal(0, 0.05, 96), 0, 1)
        drawn = rng.random(96) < said
        miss = [
            np.mean((group_statistics(groups, groups, e, smoothing=None).error - true) ** 2)
            for e in (said, drawn)
        ]
        better.append(miss[0] / miss[1])
    assert np.mean(better) < 0.3


class TestAdaptation:
    def groups(self, rng, errors, counts):
        groups = np.repeat(np.arange(len(errors)), counts)
        wrong = rng.random(len(groups)) < np.asarray(errors)[groups]
        return group_statistics(groups, groups, wrong), len(groups)

    def test_groups_that_are_alike_rarely_seem_to_differ(self):
        rng = np.random.default_rng(5)
        found = [adaptation(*self.groups(rng, [0.3] * 8, 60)).is_needed for _ in range(300)]
        assert np.mean(found) < 0.1

    def test_groups_that_differ_are_found(self):
        rng = np.random.default_rng(6)
        noisy = [
            adaptation(*self.groups(rng, [0.1] * 6 + [0.5] * 2, 60)).is_needed for _ in "12345"
        ]
        rare = adaptation(*self.groups(rng, [0.3] * 4, [200, 200, 20, 20]))
        assert all(noisy)
        assert rare.is_needed

    def test_one_group_has_nothing_to_be_compared_with(self):
        assert not adaptation(*self.groups(np.random.default_rng(7), [0.5], 10)).is_needed


class TestCalibration:
    def drawn(self, rng, n=4000):
        logits = rng.normal(0, 2, size=(n, 4))
        labels = np.array([rng.choice(4, p=p) for p in softmax(logits, axis=1)])
        return logits, labels

    @pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
    def test_finds_how_much_too_sure_a_model_is(self, factor):
        logits, labels = self.drawn(np.random.default_rng(8))
        sure = softmax(factor * logits, axis=1)
        assert temperature(sure, labels) == pytest.approx(factor, rel=0.1)
        np.testing.assert_allclose(scaled(sure, factor), softmax(logits, axis=1), rtol=1e-6)

    def test_is_the_least_loss(self):
        logits, labels = self.drawn(np.random.default_rng(9), 200)
        best = temperature(softmax(2 * logits, axis=1), labels)
        loss = lambda t: -log_softmax(2 * logits / t, axis=1)[np.arange(200), labels].mean()
        assert loss(best) <= min(loss(best * 1.01), loss(best / 1.01))

    def test_is_of_each_fold_by_itself(self):
        logits, labels = self.drawn(np.random.default_rng(10), 3000)
        fold = np.tile([0, 1, -1], 1000)
        factor = np.where(fold == 1, 4.0, 1.0)[:, None]
        said = softmax(factor * logits, axis=1)
        said[fold < 0] = np.nan
        found, temperatures = calibrated(said, labels, fold)
        assert temperatures["1"] / temperatures["0"] == pytest.approx(4, rel=0.2)
        assert np.all(np.isnan(found[fold < 0]))
        assert np.all(np.isfinite(found[fold >= 0]))

    @pytest.mark.parametrize("row", [[0.0, 0.0], [1.1, -0.1], [np.nan, 1.0]])
    def test_rows_that_are_no_probabilities_are_refused(self, row):
        said = np.array([[0.5, 0.5], row, row])
        with pytest.raises(ValueError, match="row 1 of fold 0 is no probabilities: "):
            calibrated(said, np.array([0, 1, 1]), np.array([0, 0, -1]))


class TestNoises:
    def test_the_confident_joint_is_cleanlabs(self):
        rng = np.random.default_rng(11)
        probabilities = rng.dirichlet(np.full(5, 0.4), 500)
        labels = np.array([rng.choice(5, p=p) for p in rng.permutation(probabilities)])
        joint = compute_confident_joint(labels, probabilities, calibrate=False)
        noise = NOISES["confident_joint"](probabilities=probabilities, labels=labels)
        for label in range(5):
            counted = noise[(labels == label) & ~np.isnan(noise)]
            row = joint[label]
            assert len(counted) == row.sum()
            np.testing.assert_allclose(counted.mean(), 1 - row[label] / row.sum())

    def test_expected_error_is_how_often_two_labels_differ(self):
        rng = np.random.default_rng(12)
        probabilities = rng.dirichlet(np.ones(3), 4)
        noise = NOISES["expected_error"](probabilities=probabilities)
        for p, expected in zip(probabilities, noise, strict=True):
            pairs = rng.choice(3, p=p, size=(2, 20000))
            assert np.mean(pairs[0] != pairs[1]) == pytest.approx(expected, abs=0.02)

    def test_of_what_nothing_is_said_nothing_counts(self):
        probabilities = np.array([[0.9, 0.1], [np.nan, np.nan]])
        facts = {"labels": np.array([1, 1]), "prediction": np.array([0, -1])}
        assert np.isnan(NOISES["error"](**facts)).tolist() == [False, True]
        assert np.isnan(NOISES["expected_error"](probabilities=probabilities)).tolist() == [
            False,
            True,
        ]
        found = NOISES["confident_joint"](probabilities=probabilities, labels=facts["labels"])
        assert np.isnan(found[1])


class TestGroupings:
    facts = {"labels": np.array([0, 1, 2, 2]), "class_names": ("a", "b", "c")}  # noqa: RUF012

    def test_by_prediction_and_by_the_label_of_what_nothing_is_said(self):
        probabilities = np.array([[0.1, 0.9, 0], [0.6, 0.4, 0], [0.2, 0.2, 0.6], [np.nan] * 3])
        found = GROUPINGS["prediction"](probabilities=probabilities, **self.facts)
        assert found.ids.tolist() == [1, 0, 2, 2]
        mixed = GROUPINGS["mixture"](probabilities=probabilities, **self.facts)
        assert mixed.shares[3].tolist() == [0, 0, 1]
        assert mixed.ids.tolist() == found.ids.tolist()

    def test_a_balanced_prior_undoes_frequencies(self):
        """What a model makes of equally likely inputs, where it has learned a prior of 4 to 1."""
        rng = np.random.default_rng(13)
        evidence = rng.normal(size=(2000, 2))
        labels = np.repeat([0, 1], [1600, 400])
        tilted = softmax(evidence + np.log([4, 1]), axis=1)
        of = lambda **option: GROUPINGS["prediction"](
            probabilities=tilted, labels=labels, class_names=("a", "b"), **option
        )
        assert np.mean(of().ids == 0) > 0.75
        balanced = of(balanced_prior=True).ids
        assert np.mean(balanced == 0) == pytest.approx(0.5, abs=0.05)
        assert np.mean(balanced == evidence.argmax(axis=1)) > 0.95

    def test_clusters_are_of_each_network_by_itself(self):
        rng = np.random.default_rng(14)
        spaces, kind = np.repeat([0, 1], 40), np.tile([0, 1], 40)
        centres = np.array([[[5.0, 0], [0, 5]], [[0, 5], [-5, 0]]])
        features = centres[spaces, kind] + rng.normal(0, 0.3, size=(80, 2))
        found = GROUPINGS["cluster"](
            features=features, spaces=spaces, class_names=("a", "b"), seed=0
        )
        assert found.names == tuple(f"fold {f}, cluster {k}" for f in (0, 1) for k in (0, 1))
        both = {(s, k, i) for s, k, i in zip(spaces, kind, found.ids.tolist(), strict=True)}
        assert len(both) == 4
        assert len({i for *_, i in both}) == 4

    def test_of_alike_features_there_are_as_many_clusters_as_differ(self):
        features = np.repeat(np.eye(2), [5, 3], axis=0)
        spaces = np.zeros(8, int)
        found = GROUPINGS["cluster"](
            features=features, spaces=spaces, class_names=tuple("abcd"), seed=0
        )
        assert sorted(np.bincount(found.ids)) == [3, 5]
        assert found.names == ("cluster 0", "cluster 1")


def test_of_one_sided_noise_the_prediction_tells_the_region():
    """Of a, 40% are called b: the noise lies among the a, and the label b has it."""
    rng = np.random.default_rng(15)
    true = np.repeat([0, 1, 2], 400)
    labels = np.where((true == 0) & (rng.random(1200) < 0.4), 1, true)
    logits = 3 * np.eye(3)[true] + rng.normal(0, 0.3, size=(1200, 3))
    probabilities = softmax(logits, axis=1)
    facts = {
        "labels": labels,
        "class_names": tuple("abc"),
        "probabilities": probabilities,
        "prediction": probabilities.argmax(axis=1),
    }
    noise = NOISES["error"](prediction=facts["prediction"], labels=labels)
    validation = np.arange(1200)
    of = {}
    for name, reads in (
        ("label", ("labels", "class_names")),
        ("prediction", ("labels", "class_names", "probabilities")),
    ):
        found = GROUPINGS[name](**{key: facts[key] for key in reads})
        of[name] = found.statistics(validation, noise, None).error
    assert of["label"].argmax() == 1
    assert of["prediction"].argmax() == 0
    np.testing.assert_allclose(of["prediction"], [0.4, 0, 0], atol=0.06)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A workdir with two models, each trained on one half."""
    folder = tmp_path_factory.mktemp("pretrained")
    Experiment(small(**{"pretrain.folds": 2}), folder).run("pretrain")
    return folder


def estimated(pretrained, workdir, **changes):
    """The data, and what a config estimates from these models."""
    shutil.copytree(pretrained / "pretrain", workdir / "pretrain")
    config = small(**{"pretrain.folds": 2, **changes})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "small groups")
        Experiment(config, workdir).run("estimate")
    artefacts = Artefacts(config, workdir)
    return artefacts.data, artefacts.estimated()


@pytest.mark.parametrize(
    ("groups", "noise"),
    [*((groups, "error") for groups in GROUPINGS), *(("given", noise) for noise in NOISES)],
)
def test_every_example_has_a_tau_whatever_is_chosen(pretrained, tmp_path, capsys, groups, noise):
    chosen = {"estimate.groups": groups, "estimate.noise": noise}
    data, found = estimated(pretrained, tmp_path, **chosen)
    count = len(data.train)
    assert found.tau.shape == found.noise.shape == found.frequency.shape == (count,)
    assert np.all(np.isfinite(found.tau) & (found.tau >= 0))
    assert np.ptp(found.tau) > 0
    if groups != "mixture":  # whose tau is a mean of taus
        np.testing.assert_allclose(found.tau, noise_frequency_tau(found.noise, found.frequency))
    assert len(found.names) == (0 if groups == "neighbours" else len(found.statistics.groups))
    reads = {"prediction", "mixture"} & {groups} or noise != "error"
    assert set(found.temperatures) == ({"0", "1"} if reads else set())
    if groups in ("given", "label") and noise == "error":
        unseen = read_arrays(tmp_path / "pretrain" / "held_out.npz")
        labels = data.train.labels
        wrong = unseen["prediction"] != labels[unseen["index"]]
        by_hand = group_statistics(labels, labels[unseen["index"]], wrong, smoothing=None)
        np.testing.assert_array_equal(found.tau, by_hand.per_example(by_hand.tau, labels))


def test_where_nothing_counts_the_choice_is_named(pretrained, tmp_path, capsys, monkeypatch):
    nothing = lambda *, labels: np.full(len(labels), np.nan)
    monkeypatch.setitem(NOISES, "confident_joint", nothing)
    message = "config.estimate.noise='confident_joint': there are no validation examples"
    with pytest.raises(StageError, match=message):
        estimated(pretrained, tmp_path, **{"estimate.noise": "confident_joint"})


class Net(nn.Module):
    """Whose last layer is called by itself, or inside of a loop of JAX."""

    loops: bool = False

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(5)(x))
        self.sow("intermediates", "features", x)
        last = CosineClassifier(3, 2.0)
        return jax.lax.map(last, x[None])[0] if self.loops else last(x)


@pytest.mark.parametrize("loops", [False, True])
def test_a_network_s_features_are_what_its_last_layer_takes(loops):
    """And those are its logits, where that is called out of sight."""
    x = jax.random.normal(jax.random.key(0), (4, 6))
    net = Net(loops)
    variables = Net().init(jax.random.key(1), x)
    logits, kept = net.apply(variables, x, mutable="intermediates")
    (features,) = kept["intermediates"]["features"]
    found = features_of(net.apply)(variables, x)
    np.testing.assert_allclose(found, logits if loops else features, rtol=1e-6)
    jitted = features_of(jax.jit(net.apply))(variables, x)
    np.testing.assert_allclose(jitted, logits, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"estimate.groups": "mixture"},
            "config.estimate.groups='mixture' reads what models say of all training examples that "
            "did not see them: set config.pretrain.folds, such as 2, or",
        ),
        (
            {"estimate.noise": "expected_error"},
            "config.estimate.noise='expected_error' reads what models say",
        ),
        (
            {
                "estimate.groups": "cluster",
                "estimate.probabilities": "p.npy",
                "estimate.labels": "y.npy",
            },
            "config.estimate.groups='cluster' reads the features of pre-trained networks, and "
            "config.estimate.probabilities='p.npy' takes their place",
        ),
        (
            {"estimate.clusters": 5, "pretrain.folds": 2},
            "config.estimate.clusters=5 is not read by config.estimate.groups='given'",
        ),
        ({"estimate.groups": "clusters"}, "config.estimate.groups='clusters'"),
    ],
)
def test_what_cannot_be_read_is_told_at_once(changes, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        small(**changes)


def test_the_snippet_of_the_docs_runs():
    text = (pathlib.Path(__file__).parents[1] / "docs" / "neighbourhoods.md").read_text()
    (snippet,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found = {}
    exec(snippet, found)
    assert found["strength"].shape == (300,)
    assert found["strength"].max() == 0.1
