"""Examples that are known to be labelled rightly leave the training set before noise is made."""

import json

import numpy as np
import pytest

from har_jax import config as har_config
from har_jax.data import DataError, Examples, load
from har_jax.data.corruption import Groups, Step
from har_jax.data.examples import Dataset
from har_jax.data.meta import balanced_split
from har_jax.data.reading.encoded import Reading
from har_jax.data.reading.texts import Encoding
from har_jax.data.sources import digits, folder, table
from har_jax.data.sources.source import Source
from har_jax.experiment.algorithm import Experiment
from har_jax.report.given import read_given
from har_jax.system import seeds
from tests.own_images import write_folder

NOISE = Groups(groups=((3, 8), (4, 9)), rate=0.4)
IMBALANCE = Step(classes=(3, 4, 8, 9), ratio=4.0)


def found(examples, whole):
    """Which of all examples these are, by content."""
    rows = {row.tobytes(): index for index, row in enumerate(whole.inputs)}
    return [rows[row.tobytes()] for row in examples.inputs]


@pytest.mark.parametrize("size", [10, 23, 100])
def test_as_many_of_each_class_are_taken(size):
    labels = np.random.default_rng(0).integers(0, 10, 400)
    taken, rest = balanced_split(labels, size, 10, seed=1)
    assert np.array_equal(np.sort([*taken, *rest]), np.arange(400))
    counts = np.bincount(labels[taken], minlength=10)
    assert counts.sum() == size
    assert counts.max() - counts.min() <= 1
    again, other = (balanced_split(labels, size, 10, seed)[0] for seed in (1, 2))
    assert np.array_equal(taken, again)
    assert not np.array_equal(taken, other)


def test_what_cannot_be_taken_is_told():
    labels = np.repeat([0, 1], [20, 3])
    with pytest.raises(DataError, match=r"meta_size=1 is less than one example of each of 2"):
        balanced_split(labels, 1, 2, seed=0)
    with pytest.raises(DataError, match=r"takes 3 examples of each class, and class 1 has 3 in"):
        balanced_split(labels, 6, 2, seed=0)


def test_they_have_the_sources_labels_and_are_in_no_other_part():
    source = digits()
    whole = source.load(seeds.derive(0, "test split"))
    data = load(source, NOISE, IMBALANCE, 0, meta_size=100)
    rows = found(data.meta, whole.train)
    assert np.array_equal(data.meta.labels, whole.train.labels[rows])
    assert np.bincount(data.meta.labels).tolist() == [10] * 10
    for part in (data.train, load(source, NOISE, IMBALANCE, 0, meta_size=100).train):
        assert not set(rows) & set(found(part, whole.train))
    held_out = load(source, NOISE, IMBALANCE, 0, meta_size=100, validation_fraction=0.25)
    assert found(held_out.meta, whole.train) == rows
    assert not set(rows) & set(found(held_out.test, whole.train))
    assert data.digest != load(source, NOISE, IMBALANCE, 0).digest
    assert data.summary()["meta_examples"] == 100
    assert load(source, NOISE, IMBALANCE, 0).summary()["meta_examples"] == 0


def test_labels_that_nobody_made_wrong_are_taken_as_they_are_with_a_warning():
    with pytest.warns(UserWarning, match="meta_size=20 examples count as labelled rightly"):
        load(digits(), None, None, 0, meta_size=20)


def test_a_folder_may_have_a_split_of_them(tmp_path):
    write_folder(tmp_path, {f"{s}/{c}": 4 for s in ("train", "meta", "test") for c in "ab"})
    source = folder(root=tmp_path, reading=Reading(image_size=16))
    data = load(source, None, None, 0)
    assert len(data.train) == len(data.meta) == len(data.test) == 8
    assert {path.split("/")[0] for path in data.meta.inputs.names} == {"meta"}
    assert data.found.splits["meta"] == "the folder 'meta'"
    with pytest.raises(DataError, match=r"meta_size=4 is not read, since the data have a split"):
        load(source, None, None, 0, meta_size=4)


@pytest.mark.parametrize("has_test", [True, False])
def test_a_table_of_texts_may_have_a_split_of_them(tmp_path, has_test):
    path = tmp_path / "texts.csv"
    splits = ("train", "meta", "test") if has_test else ("train", "meta")
    lines = [
        f"{word} {split} {number},{label},{split}"
        for split in splits
        for number in range(10)
        for word, label in (("fine", "good"), ("poor", "bad"))
    ]
    path.write_text("\n".join(["text,label,split", *lines]))
    data = load(table(table=path, encoding=Encoding(50, 4)), None, None, 0)
    assert data.meta.inputs.shape == (20, 4)
    assert data.meta.inputs.dtype == data.train.inputs.dtype
    assert all("meta" in text for text in data.meta.texts)
    assert len(data.test) == (20 if has_test else 4)


def test_they_must_not_be_tested_on():
    images = np.random.default_rng(0).random((12, 4, 4, 1)).astype(np.float32)
    examples = Examples(images, np.tile([0, 1], 6).astype(np.int32))
    of = lambda *rows: examples.take(np.array(rows))
    parts = Dataset(of(0, 1, 2), of(3, 4, 5, 6), ("a", "b"), meta=of(6, 7, 8))
    source = Source("images", ("a", "b"), lambda seed: parts, "own")
    with pytest.raises(DataError, match="1 of the 4 examples of test are in meta too"):
        load(source, None, None, 0)
    assert len(load(source, None, None, 0, on_leak="drop").meta) == 2
    assert len(load(source, None, None, 0, on_leak="keep").meta) == 3


def of_own(train, meta, test, groups=None):
    """A source of these examples of ten, which equal one another by their remainder of eight."""
    rng = np.random.default_rng(0)
    contents = rng.random((8, 4, 4, 1)).astype(np.float32)
    labels, rows = np.arange(10) % 2, np.arange(10) % 8
    of_group = None if groups is None else np.array(groups, np.int32)
    every = Examples(contents[rows], labels.astype(np.int32), of_group)
    names = None if groups is None else ("g", "h", "i")
    parts = [every.take(np.array(part)) for part in (train, test, meta)]
    dataset = Dataset(parts[0], parts[1], ("a", "b"), names, meta=parts[2])
    return Source("images", ("a", "b"), lambda seed: dataset, "own")


def test_copies_of_them_are_not_trained_on():
    source = of_own(train=[0, 1, 2, 3, 4], meta=[8, 9], test=[5, 6])
    data = load(source, None, None, 0)
    assert len(data.train) == 3
    assert data.found.counts["left out: training examples that equal one of meta"] == 2
    assert len(load(source, None, None, 0, on_leak="keep").train) == 5


def test_groups_that_are_kept_whole_are_not_in_both_meta_and_test():
    groups = [0, 0, 0, 0, 1, 1, 2, 2, 2, 2]
    source = of_own(train=[0, 1, 2, 3], meta=[4, 7], test=[5, 6], groups=groups)
    load(source, None, None, 0)
    with pytest.raises(DataError, match="2 groups are in meta and in test"):
        load(source, None, None, 0, keep_groups_whole=True)
    config = tiny("l2rw", **{"data.meta_size": 20, "data.keep_groups_whole": True})
    with pytest.raises(har_config.ConfigError, match="meta_size=20 takes examples and not groups"):
        har_config.validate(config)


def test_a_class_that_they_lack_is_named():
    source = of_own(train=[0, 1, 2, 3], meta=[4, 6], test=[5, 7])
    with pytest.warns(UserWarning, match="no example of meta is of class b"):
        load(source, None, None, 0)


def tiny(*methods, **changes):
    config = har_config.base()
    config.methods = methods
    config.data.noise.kind, config.data.noise.rate = "symmetric", 0.2
    config.model.widths = (4,)
    config.batch_size = 32
    config.train.epochs = config.pretrain.epochs = 1.0
    config.devices = 1
    config.update_from_flattened_dict(changes)
    return config


@pytest.mark.parametrize("method", ["l2rw", "mw_net"])
def test_a_method_that_needs_them_is_refused_without(method, tmp_path):
    with pytest.raises(har_config.ConfigError, match=rf"'{method}' learns from .*data\.meta_size"):
        har_config.validate(tiny(method))
    har_config.validate(tiny(method, **{"data.meta_size": 20}))
    write_folder(tmp_path / "images", {"a": 4, "b": 4})
    changes = {"data.source": "folder", "data.root": str(tmp_path / "images")}
    own = tiny(method, **changes, **{"data.image_size": 16, "batch_size": 4})
    har_config.validate(own)  # a folder may have a split meta
    with pytest.raises(DataError, match=rf"{method} learns from .* split called meta"):
        Experiment(own, tmp_path / "run").run()


@pytest.mark.slow
def test_the_report_says_who_saw_them(tmp_path):
    config = tiny("erm", "l2rw", **{"data.meta_size": 20})
    har_config.validate(config)
    Experiment(config, tmp_path).run()
    assert read_given(tmp_path / "train" / "erm") == {}
    assert read_given(tmp_path / "train" / "l2rw") == {"meta": 20}
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert results["given"]["l2rw"] == {"meta": 20}


@pytest.mark.slow
def test_images_in_files_come_beside_a_batch(tmp_path):
    write_folder(tmp_path / "images", {f"{s}/{c}": 6 for s in ("train", "meta") for c in "ab"})
    changes = {
        "data.source": "folder",
        "data.root": str(tmp_path / "images"),
        "data.image_size": 16,
        "data.augment": "resized_crop_and_flip",
        "data.noise.kind": "none",
        "data.noise.rate": None,
        "batch_size": 4,
    }
    config = tiny("mw_net", **changes)
    har_config.validate(config)
    Experiment(config, tmp_path / "run").run()
    assert read_given(tmp_path / "run" / "train" / "mw_net") == {"meta": 12}
