"""Noise is estimated from halves, from folds, or from what another program says."""

import json
import shutil

import numpy as np
import pytest
import scipy.stats

from har_jax import config as har_config
from har_jax.data import stratified_folds
from har_jax.data.examples import DataError
from har_jax.estimation.estimate import errors_by_group, estimate
from har_jax.estimation.neighbourhoods import Groups
from har_jax.estimation.noises import error
from har_jax.estimation.out_of_sample import (
    OutOfSample,
    from_probabilities,
    warn_of_confusion,
)
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.workdir import StageError
from har_jax.strength import noise_frequency_tau
from har_jax.system.files import read_arrays

LABELS = np.array([0, 0, 0, 0, 1, 1, 2, 2], np.int32)


def small(**changes):
    config = har_config.base()
    config.data.train_size = 300
    config.data.noise.kind = "groups"
    config.data.noise.groups = ((3, 8),)
    config.data.noise.rate = 0.4
    config.methods = ("har",)
    config.devices = 1
    config.batch_size = 32
    config.checkpoint_every = 20
    config.model.widths = (4,)
    config.pretrain.epochs, config.train.epochs = 12.0, 0.5
    config.update_from_flattened_dict(changes)
    har_config.validate(config)
    return config


def by_label(said, labels, names, smoothing):
    """The statistics of the labels' groups."""
    prediction, _ = said.of_all(len(labels))
    noise = error(prediction=prediction, labels=labels)
    return estimate(Groups(labels, names), noise, smoothing, {}).statistics


class TestFolds:
    def test_are_parts_with_their_share_of_each_class(self):
        labels = np.repeat([0, 1, 2], [30, 12, 6])
        folds = stratified_folds(labels, 3, seed=0)
        assert sorted(np.concatenate(folds).tolist()) == list(range(48))
        for fold in folds:
            assert np.bincount(labels[fold]).tolist() == [10, 4, 2]
            assert np.all(np.diff(fold) > 0)
        assert [f.tolist() for f in stratified_folds(labels, 3, 0)] == [f.tolist() for f in folds]
        assert [f.tolist() for f in stratified_folds(labels, 3, 1)] != [f.tolist() for f in folds]

    def test_of_small_classes(self):
        with pytest.warns(UserWarning, match=r"classes \[1, 3\] have \[2, 1\] examples, fewer"):
            folds = stratified_folds(np.array([0, 0, 0, 0, 1, 1, 3]), 4, seed=0)
        assert sorted(np.concatenate(folds).tolist()) == list(range(7))
        with pytest.raises(DataError, match="9 folds are more than the 4 examples of the largest"):
            stratified_folds(LABELS, 9, seed=0)


def test_estimates_are_pooled_and_by_fold():
    fold = np.array([0, 1, 0, 1, 0, 1, 0, 1])
    prediction = np.array([0, 1, 0, 0, 1, 0, -1, 2])  # -1: it could not be read
    order = np.random.default_rng(0).permutation(8)
    said = OutOfSample(order, fold[order], prediction[order], np.zeros(8))
    pooled, folds = errors_by_group(said, LABELS, LABELS, 3)
    np.testing.assert_allclose(pooled.error, [1 / 4, 1 / 2, 0])
    beta = [
        scipy.stats.beta(1 + wrong, 1 + right).std() for wrong, right in ((1, 3), (1, 1), (0, 1))
    ]
    np.testing.assert_allclose(pooled.standard_error, beta)
    assert pooled.validation_count.tolist() == [4, 2, 1]
    frequency = np.array([4, 2, 2]) / 8
    np.testing.assert_allclose(pooled.tau, noise_frequency_tau(pooled.error, frequency))
    np.testing.assert_allclose(folds["observed_error"][0][:2], [0, 0])
    np.testing.assert_allclose(folds["observed_error"][1], [1 / 2, 1, 0])
    assert folds["validation_count"][0].tolist() == [2, 1, 0]
    assert np.isnan(folds["standard_error"][0][2])


def test_a_small_group_that_keeps_the_others_down_is_named():
    labels = np.repeat(np.arange(4), [20, 20, 20, 1])
    wrong = np.zeros(61, bool)
    wrong[[0, 20, 21, 40, 60]] = True
    said = OutOfSample(np.arange(61), np.zeros(61, int), np.where(wrong, 9, labels), np.zeros(61))
    names = ("a", "b", "c", "rarity")
    with pytest.warns(UserWarning, match=r"'rarity' \(1 examples, of 1 held out 1 wrong\)") as told:
        raw = by_label(said, labels, names, smoothing=0.0)
    with pytest.warns(UserWarning, match="small groups"):
        shrunk = by_label(said, labels, names, smoothing=None)
    (message,) = [str(warning.message) for warning in told]
    assert f"more than {100 * raw.tau[:3].max() / raw.tau[3]:.0f}% of" in message
    assert shrunk.tau[:3].max() / shrunk.tau[3] > 2 * raw.tau[:3].max() / raw.tau[3]
    # What is left is the frequency's share, and no chance.
    np.testing.assert_allclose(shrunk.tau[:3] / shrunk.tau[3], (1 / 20) ** 0.4)


class TestProbabilitiesOfAnotherProgram:
    @pytest.fixture
    def files(self, tmp_path):
        def write(probabilities, labels=LABELS):
            np.save(tmp_path / "p.npy", probabilities)
            np.save(tmp_path / "labels.npy", labels)
            return tmp_path / "p.npy", tmp_path / "labels.npy", LABELS, 3

        return write

    def test_are_read_where_they_are_known(self, files):
        probabilities = np.full((8, 3), np.nan)
        probabilities[1] = (0.1, 0.7, 0.2)
        probabilities[7] = (0.0, 0.0, 1.0)
        said = from_probabilities(*files(probabilities))
        assert said.index.tolist() == [1, 7]
        assert said.prediction.tolist() == [1, 2]
        np.testing.assert_allclose(said.loss, [-np.log(0.1), 0])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda p: p[:7], r"holds float64\[7, 3\]: \[8, 3\] floating-point numbers are"),
            (lambda p: p[:, :2], r"holds float64\[8, 2\]"),
            (lambda p: (p * 10).astype(int), r"holds int64\[8, 3\]"),
            (lambda p: np.where(np.arange(8)[:, None] == 5, 2 * p, p), r"row 5 of .* add up to 1"),
            (lambda p: np.full_like(p, np.nan), "row 0 of .* all NaN for an example of which"),
            (lambda p: p + np.array([1.0, -1.0, 0.0]), "row 0 of .* numbers that are not negative"),
        ],
    )
    def test_that_are_none(self, files, change, message):
        with pytest.raises(DataError, match=message):
            from_probabilities(*files(change(np.full((8, 3), 1 / 3))))

    def test_of_other_labels(self, files):
        uniform = np.full((8, 3), 1 / 3)
        with pytest.raises(DataError, match=r"row 4 of .* is 2, of the training set 1: "):
            from_probabilities(*files(uniform, np.where(np.arange(8) == 4, 2, LABELS)))
        with pytest.raises(DataError, match=r"labels.npy is of shape \[3\]"):
            from_probabilities(*files(uniform, LABELS[:3]))

    def test_of_labels_that_are_none(self, files):
        uniform = np.full((8, 3), 1 / 3)
        with pytest.raises(DataError, match=r"labels.npy holds float64: ids of classes are"):
            from_probabilities(*files(uniform, LABELS.astype(float)))

    def test_a_probability_of_zero_has_a_finite_loss(self, files):
        certain = np.eye(3)[[1, 0, 0, 0, 1, 1, 2, 2]]
        said = from_probabilities(*files(certain))
        assert said.loss[0] == pytest.approx(-np.log(1e-9))
        np.testing.assert_array_equal(said.loss[1:], 0)

    def test_that_are_no_arrays(self, files):
        paths = files(np.full((8, 3), 1 / 3))
        paths[0].write_bytes(b"0.1,0.9")
        with pytest.raises(OSError, match=r"p.npy is no .npy of numbers, or damaged$"):
            from_probabilities(*paths)
        paths[0].write_bytes(b"PK\x03\x04 as of a file that is cut")
        with pytest.raises(OSError, match=r"p.npy is no .npy of numbers, or damaged$"):
            from_probabilities(*paths)
        np.savez(paths[0].with_suffix(".npz"), p=np.ones(3))
        with pytest.raises(OSError, match=r"p.npz is no .npy of numbers"):
            from_probabilities(paths[0].with_suffix(".npz"), *paths[1:])
        np.save(paths[0], np.array([{}]), allow_pickle=True)
        with pytest.raises(OSError, match=r"is no .npy of numbers"):
            from_probabilities(*paths)


@pytest.fixture(scope="module")
def folded(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("folded")
    Experiment(small(**{"pretrain.folds": 2}), workdir).run()
    return workdir


class TestCrossFitting:
    def test_every_example_is_said_something_of_once(self, folded):
        said = read_arrays(folded / "pretrain" / "held_out.npz")
        assert sorted(said["index"].tolist()) == list(range(300))
        assert np.bincount(said["fold"]).tolist() == [150, 150]
        probabilities = np.load(folded / "pretrain" / "probabilities.npy")
        assert probabilities.shape == (300, 10)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
        own = probabilities[said["index"]]
        np.testing.assert_array_equal(own.argmax(axis=1), said["prediction"])
        labels = np.load(folded / "pretrain" / "labels.npy")
        loss = -np.log(own[np.arange(300), labels[said["index"]]])
        np.testing.assert_allclose(loss, said["loss"], rtol=1e-4, atol=1e-5)

    def test_the_report_has_folds_and_standard_errors(self, folded):
        results = json.loads((folded / "report" / "results.json").read_text())
        for group in results["groups"]:
            assert group["validation_n"] == group["n"]
            assert group["n"] == sum(fold["validation_n"] for fold in group["folds"])
            wrong = sum(f["validation_error"] * f["validation_n"] for f in group["folds"])
            assert wrong == pytest.approx(group["validation_error"] * group["n"])
            right = (1 - group["validation_error"]) * group["n"]
            spread = scipy.stats.beta(1 + wrong, 1 + right).std()
            assert group["validation_standard_error"] == pytest.approx(spread)
        page = (folded / "report" / "index.html").read_text()
        assert "<th>fold 0</th><th>fold 1</th><th>pooled</th>" in page

    @pytest.mark.slow
    def test_a_run_that_is_cut_in_a_fold_goes_on_to_the_same(
        self, folded, tmp_path, cut_after_saving
    ):
        config = small(**{"pretrain.folds": 2})
        cut_after_saving(20, Experiment(config, tmp_path).run)
        assert (tmp_path / "pretrain" / "fold-0" / "checkpoints" / "20").exists()
        Experiment(config, tmp_path).run("pretrain")
        for name in ("held_out.npz", "probabilities.npy"):
            there, here = (folder / "pretrain" / name for folder in (folded, tmp_path))
            assert there.read_bytes() == here.read_bytes()

    @pytest.mark.slow
    def test_its_probabilities_give_the_same_elsewhere(self, folded, tmp_path, capsys):
        files = {
            "estimate.probabilities": str(folded / "pretrain" / "probabilities.npy"),
            "estimate.labels": str(folded / "pretrain" / "labels.npy"),
        }
        Experiment(small(**files), tmp_path).run()
        assert not (tmp_path / "pretrain").exists()
        names = ("error", "standard_error", "tau")
        there, here = (read_arrays(w / "estimate" / "statistics.npz") for w in (folded, tmp_path))
        for name in names:
            np.testing.assert_allclose(there[name], here[name], rtol=1e-12)
        Experiment(small(**files), tmp_path).run("predict")
        lines = (tmp_path / "predict" / "har.csv").read_text().splitlines()
        assert '"held_out_loss"' in lines[0]
        assert ",," not in lines[1]  # something is said of every training example


@pytest.mark.parametrize("key", ["probabilities", "labels"])
def test_files_that_are_not_there_are_told_before_data_are_loaded(tmp_path, capsys, key):
    np.save(tmp_path / "here.npy", np.ones(3))
    files = dict.fromkeys(("estimate.probabilities", "estimate.labels"), str(tmp_path / "here.npy"))
    config = small(**{**files, f"estimate.{key}": str(tmp_path / "gone.npy")})
    with pytest.raises(DataError, match=rf"config\.estimate\.{key}='.*gone.npy' is no file"):
        Experiment(config, tmp_path / "w").run()
    assert "data:" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_files_are_part_of_what_a_workdir_was_made_from(tmp_path, capsys):
    config = small()
    experiment = Experiment(config, tmp_path / "labels")
    experiment.run("pretrain")
    labels = np.load(tmp_path / "labels" / "pretrain" / "labels.npy")
    np.save(tmp_path / "labels.npy", labels)

    def write(seed):
        rows = np.random.default_rng(seed).dirichlet(np.ones(10), len(labels))
        np.save(tmp_path / "p.npy", rows)

    files = {
        "estimate.probabilities": str(tmp_path / "p.npy"),
        "estimate.labels": str(tmp_path / "labels.npy"),
    }
    foreign = small(**files)
    write(0)
    with pytest.warns(UserWarning, match="what is found of noise means little"):
        Experiment(foreign, tmp_path / "w").run("estimate")
    Experiment(small(methods=("erm",)), tmp_path / "w").run("train")
    write(1)
    with pytest.raises(StageError, match="estimate was made from other data than there are now"):
        Experiment(foreign, tmp_path / "w").run("train")
    shutil.rmtree(tmp_path / "w" / "estimate")  # what ERM has learned has nothing to do with it
    both = Experiment(small(methods=("erm", "har"), **files), tmp_path / "w")
    with pytest.warns(UserWarning, match="what is found of noise means little"):
        both.run("estimate")
    both.run("train")
    assert f"{tmp_path}/w/train/erm: complete, skipped" in capsys.readouterr().out


def test_rows_in_another_order_are_told_of():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 20)
    right = np.where(rng.random(240) < 0.1, rng.integers(0, 12, 240), labels)
    said = lambda prediction: OutOfSample(np.arange(240), np.zeros(240, int), prediction, None)
    errors_by_group(said(right), labels, labels, 12)
    for _ in range(20):
        with pytest.warns(UserWarning, match="is predicted wrongly, .* order of labels.npy"):
            errors_by_group(said(rng.permutation(right)), labels, labels, 12)


def test_classes_that_are_taken_for_one_other_are_named():
    names = tuple(sorted(map(str, range(12))))  # 0, 1, 10, 11, 2, ...
    labels = np.repeat(np.arange(12), 20)
    columns = np.array([int(name) for name in names])  # of another program, in numeric order
    said = lambda prediction: OutOfSample(np.arange(240), np.zeros(240, int), prediction, None)
    message = r"10 of 12 classes .* for one other: '10' for '8' \(20 of 20\).* of classes.txt"
    with pytest.warns(UserWarning, match=message):
        warn_of_confusion(said(columns[labels]), labels, names, foreign=True)
    warn_of_confusion(said(labels), labels, names, foreign=False)
    mostly = np.where(np.arange(240) % 20 < 3, labels, (labels + 1) % 12)
    warn_of_confusion(said(mostly), labels, names, foreign=False)
    few = np.where(np.arange(240) % 20 < 9, (labels + 1) % 12, -1)  # the others cannot be read
    warn_of_confusion(said(few), labels, names, foreign=False)
