"""TFDS data are read without TensorFlow and network; what cannot be read says what to do."""

import json
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from har_jax.config import base
from har_jax.data import load
from har_jax.data.corruption import Symmetric
from har_jax.data.examples import DataError
from har_jax.data.hold_out import HoldOut
from har_jax.data.reading.decoding import decode_image
from har_jax.data.reading.encoded import Reading
from har_jax.data.sources import prepared, tfds
from har_jax.experiment.build import make_source
from tests import tiny_tfds

SHARED = pathlib.Path(__file__).parent.parent.parent / "shared" / "tfds"
NAMES = ("ant", "bee", "cow")


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*arguments, **options):
        raise OSError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    images, labels = tiny_tfds.random_images(12, (5, 4, 3), 3)
    tiny_tfds.write(folder / "tiny" / "1.9.0", images[:6], labels[:6], NAMES)
    tiny_tfds.write(folder / "tiny" / "1.10.0", images, labels, NAMES)
    (folder / "tiny" / "incomplete.ABC_2.0.0").mkdir()
    return folder


@pytest.mark.parametrize(("name", "size"), [("tiny", 12), ("tiny:1.10.0", 12), ("tiny:1.9.0", 6)])
def test_the_newest_version_or_the_one_that_is_named(data_dir, name, size):
    source = tfds(name, data_dir=data_dir)
    assert source.class_names == NAMES
    loaded = source.load(0)
    images, labels = tiny_tfds.random_images(12, (5, 4, 3), 3)
    for part in (loaded.train, loaded.test):
        assert part.inputs.dtype == np.uint8
        assert part.labels.dtype == np.int32
        order = [int(np.argmax((images == image).all((1, 2, 3)))) for image in part.inputs]
        assert sorted(order) == list(range(size))
        np.testing.assert_array_equal(part.labels, labels[order])


def test_grey_images_and_three_hundred_classes(tmp_path):
    images, labels = tiny_tfds.random_images(300, (4, 4, 1), 300)
    names = [f"class {k}" for k in range(300)]
    folder = tmp_path / "grey" / "1.0.0"
    tiny_tfds.write(folder, images, labels, names, splits=("train", "validation"))
    loaded = tfds("grey", data_dir=tmp_path).load(0)
    assert loaded.train.inputs.shape == (300, 4, 4, 1)
    assert sorted(loaded.test.labels.tolist()) == list(range(300))
    noise = Symmetric(rate=1.0)
    with pytest.warns(UserWarning, match="300 classes for 300 training examples, .*: are these"):
        noisy = load(tfds("grey", data_dir=tmp_path), noise, None, 0, on_leak="keep")
    assert noisy.flipped.all()
    assert noisy.train.labels.max() > 256
    assert noisy.summary()["true_count"] == [1] * 300


def test_the_folder_is_that_of_tfds(data_dir, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(data_dir))
    assert tfds("tiny").class_names == NAMES


def test_data_that_are_not_there_and_no_tensorflow(tmp_path, monkeypatch):
    monkeypatch.setattr(prepared.importlib.util, "find_spec", lambda name: None)
    begun = time.monotonic()
    with pytest.raises(DataError) as raised:
        tfds("cifar10", data_dir=tmp_path)
    assert time.monotonic() - begun < 5
    message = str(raised.value)
    assert f"tfds:cifar10 is not prepared in {tmp_path}" in message
    assert "pip install -e '.[prepare]'" in message
    assert "TFDS_DATA_DIR (or config.data.data_dir)" in message


def test_no_network_is_noticed_in_seconds():
    begun = time.monotonic()
    assert not prepared._any_answers(["https://www.tensorflow.org", "not an address"])
    assert time.monotonic() - begun < 8


def damage_features(folder):
    (folder / "features.json").write_text("{")


def damage_records(folder):
    for path in folder.glob("*.array_record*"):
        path.write_bytes(path.read_bytes()[:100])


def two_images(folder):
    features = json.loads((folder / "features.json").read_text())["featuresDict"]["features"]
    tiny_tfds.write_features(folder, {**features, "second": features["image"]})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_features, r"tfds:tiny: .*1\.10\.0 cannot be read .*: delete it and prepare"),
        (damage_records, r"examples 0 to 11 of train cannot be read from .*tiny.* delete that"),
        (
            two_images,
            "features image, label, second: .* 2 features that are a uint8 image",
        ),
    ],
)
def test_damaged_and_other_data(data_dir, tmp_path, damage, message):
    shutil.copytree(data_dir / "tiny" / "1.10.0", tmp_path / "tiny" / "1.10.0")
    damage(tmp_path / "tiny" / "1.10.0")
    with pytest.raises(DataError, match=message):
        tfds("tiny", data_dir=tmp_path).load(0)


def test_other_formats_splits_configs_and_names(tmp_path):
    images, labels = tiny_tfds.random_images(3, (4, 4, 3), 3)
    tiny_tfds.write(tmp_path / "old" / "1.0.0", images, labels, NAMES, file_format="tfrecord")
    tiny_tfds.write(tmp_path / "part" / "1.0.0", images, labels, NAMES, splits=("test",))
    for config in ("a", "b"):
        tiny_tfds.write(tmp_path / "many" / config / "1.0.0", images, labels, NAMES)
    for name, message in {
        "old": "is prepared as tfrecord in .*: prepare it as array_record",
        "part": "has the splits test: train is needed, and test or validation where there",
        "many": "holds several configs: write one of tfds:many/a, tfds:many/b",
        "no such": "is not a name of TFDS: write",
        "../x": "is not a name of TFDS: write",
    }.items():
        with pytest.raises(DataError, match=message):
            tfds(name, data_dir=tmp_path)
    assert tfds("many/b", data_dir=tmp_path).class_names == NAMES


def test_a_part_of_the_one_split_is_tested_on(tmp_path):
    images, labels = tiny_tfds.random_images(30, (4, 4, 3), 3)
    tiny_tfds.write(tmp_path / "one" / "1.0.0", images, labels, NAMES, splits=("train",))
    source = tfds("one", data_dir=tmp_path)
    data = source.load(0)
    assert np.bincount(data.train.labels).tolist() == [8, 8, 8]
    assert np.bincount(data.test.labels).tolist() == [2, 2, 2]
    assert data.found.splits["test"] == "0.2 of the split 'train', at random"
    assert not np.array_equal(data.test.inputs, source.load(1).test.inputs)
    half = tfds("one", data_dir=tmp_path, hold_out=HoldOut(0.5)).load(0)
    assert len(half.train) == len(half.test) == 15
    tiny_tfds.write(tmp_path / "two" / "1.0.0", images, labels, NAMES)
    with pytest.raises(DataError, match=r"test_fraction=0.5 is not read, since tfds:two has"):
        tfds("two", data_dir=tmp_path, hold_out=HoldOut(0.5)).load(0)


def test_labels_that_are_none_and_splits_that_are_not_read(tmp_path):
    images, labels = tiny_tfds.random_images(30, (4, 4, 3), 3)
    labels = np.where(np.arange(30) < 4, -1, labels)
    splits = ("train", "test", "unlabelled")
    tiny_tfds.write(tmp_path / "some" / "1.0.0", images, labels, NAMES, splits=splits)
    with pytest.raises(DataError, match="4 of the 30 examples of the split train of tfds:some"):
        tfds("some", data_dir=tmp_path).load(0)
    data = tfds("some", data_dir=tmp_path, on_missing_label="skip").load(0)
    assert len(data.train) == len(data.test) == 26
    assert data.found.counts == {
        "left out: examples of the split 'unlabelled'": 30,
        "left out: labels -1": 8,
    }


def test_images_of_several_sizes_stay_in_their_records(tmp_path):
    """As those of i_naturalist2018, whose test set has no labels."""
    images, labels = tiny_tfds.random_images(12, (20, 24, 3), 3)
    folder = tmp_path / "i_naturalist2018" / "1.0.0"
    splits = ("train", "validation", "test")
    tiny_tfds.write(folder, images, labels, NAMES, splits=splits, sized=False)
    config = base()
    config.data.source, config.data.test_split = "tfds:i_naturalist2018", "validation"
    config.data.image_size, config.data.data_dir = 16, str(tmp_path)
    config.data.augment = "resized_crop_and_flip"
    source = make_source(config.data)
    data = source.load(0)
    assert data.found.counts == {"left out: examples of the split 'test'": 12}
    rows = np.array([7, 2])
    for split, examples in (("train", data.train), ("validation", data.test)):
        assert examples.inputs.shape == (12, 16, 16, 3)
        np.testing.assert_array_equal(examples.labels, labels)
        found = examples.take(rows).inputs
        assert found.names == [f"{split}/7", f"{split}/2"]
        for row, place in enumerate(rows):
            np.testing.assert_array_equal(decode_image(found.file(row)), images[place])
    assert data.train.inputs.reading.crop == "resized_crop_and_flip"
    mended = load(source, None, None, 0, train_size=6, on_leak="keep")
    assert mended.found.counts["kept: training examples that equal one that is tested on"] == 12
    config.data.test_split = None
    assert make_source(config.data).load(0).found.splits["test"] == "the split 'test'"
    for split in ("val", "train"):
        config.data.test_split = split
        with pytest.raises(DataError, match=f"{split}' is no split of .*there is validation, test"):
            make_source(config.data)


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        (Reading(image_size=64), r"data.image_size=64 is of images of several sizes, .* all 5x4x3"),
        (Reading(crop="resized_crop_and_flip"), r"config.data.augment=resized_crop_and_flip is of"),
    ],
)
def test_how_to_read_images_of_one_size_is_not_said(data_dir, reading, message):
    with pytest.raises(DataError, match=message):
        tfds("tiny", data_dir=data_dir, reading=reading)


def test_texts_and_what_is_no_utf8(tmp_path):
    texts = [b"good film", b"", b"caf\xc3\xa9 \xff", b"bad"]
    tiny_tfds.write_texts(tmp_path / "words" / "1.0.0", texts, [1, 0, 1, 0], ("bad", "good"))
    loaded = tfds("words", data_dir=tmp_path).load(0)
    assert loaded.train.inputs.tolist() == ["good film", "", "caf\xe9 \ufffd", "bad"]
    assert loaded.test.labels.tolist() == [1, 0, 1, 0]
    assert loaded.class_names == ("bad", "good")


def test_reading_imports_no_tensorflow(data_dir):
    code = (
        "import sys; from har_jax.data.sources import tfds; "
        f"tfds('tiny', data_dir={str(data_dir)!r}).load(0); "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason=f"the real CIFAR-10 is not in {SHARED}")
def test_the_real_cifar10():
    loaded = tfds("cifar10", data_dir=SHARED).load(0)
    assert loaded.train.inputs.shape == (50000, 32, 32, 3)
    assert np.bincount(loaded.train.labels).tolist() == [5000] * 10
    assert np.bincount(loaded.test.labels).tolist() == [1000] * 10
    pixels = loaded.train.inputs[:5000].reshape(-1, 3) / 255
    np.testing.assert_allclose(pixels.mean(axis=0), [0.4914, 0.4822, 0.4465], atol=0.01)
