"""Equal examples are found by content, in every source, and go where one says."""

import os
import shutil

import numpy as np
import pytest

from har_jax import config as har_config
from har_jax.data import load, sources
from har_jax.data.apart import Parts
from har_jax.data.equal import content_ids
from har_jax.data.examples import DataError, Examples
from har_jax.data.hold_out import HoldOut
from har_jax.data.reading.encoded import ImageFiles, Reading
from har_jax.experiment.pretraining import held_out_of
from tests import tiny_tfds
from tests.own_images import write_folder


def folder(root):
    write_folder(root, {f"{split}/{name}": 4 for split in ("train", "test") for name in "ab"})
    shutil.copy(root / "train" / "a" / "000.jpg", root / "test" / "b" / "copy.jpg")
    shutil.copy(root / "train" / "a" / "001.png", root / "test" / "a" / "copy.png")
    return sources.folder(root=root, reading=Reading(image_size=16))


def linked(root):
    write_folder(root, {"train/a": 2, "train/b": 2})
    (root / "test").symlink_to("train")
    return sources.folder(root=root, reading=Reading(image_size=16))


def table_of_images(root):
    write_folder(root, {"images": 6, "more": 2})
    shutil.copy(root / "images" / "000.jpg", root / "more" / "copy.jpg")
    rows = [f"images/00{n}.{('jpg', 'png')[n % 2]},{'ab'[n % 2]},train" for n in range(6)]
    tests = ("more/000.jpg,a,test", "more/001.png,b,test", "more/copy.jpg,a,test")
    again = ("images/../images/001.png,b,test",)
    (root / "t.csv").write_text("\n".join(("path,label,split", *rows, *tests, *again)))
    return sources.table(table=root / "t.csv", reading=Reading(image_size=16))


def table_of_texts(root):
    rows = ["good film,pos,train", "bad film,neg,train", "a bad film,neg,train", "fine,pos,train"]
    tests = ["Good  film ,pos,test", "bad film,pos,test", "dull film,neg,test"]
    (root / "t.csv").write_text("\n".join(("text,label,split", *rows, *tests)))
    return sources.table(table=root / "t.csv")


def prepared_images(root):
    images, labels = tiny_tfds.random_images(6, (4, 4, 3), 2)
    tiny_tfds.write(root / "tiny" / "1.0.0", images, labels, ("no", "yes"))
    return sources.tfds("tiny", data_dir=root)


def prepared_texts(root):
    texts = [b"one film", b"two films", b"no film", b"film"]
    tiny_tfds.write_texts(root / "words" / "1.0.0", texts, [1, 0, 1, 0], ("no", "yes"))
    return sources.tfds("words", data_dir=root)


@pytest.mark.parametrize(
    ("write", "shared", "names"),
    [
        (folder, 2, r"the first is test/a/copy\.png, which equals train/a/001\.png"),
        (linked, 4, r"the first is test/a/000\.jpg, which equals train/a/000\.jpg"),
        (table_of_images, 2, r"the first is more/copy\.jpg, which equals images/000\.jpg"),
        (table_of_texts, 2, "the first is 'Good  film', which equals 'good film'"),
        (prepared_images, 6, "the first is example 0, which equals example 0"),
        (prepared_texts, 4, "the first is 'one film', which equals 'one film'"),
    ],
)
def test_what_is_trained_on_and_tested_on_is_found(tmp_path, write, shared, names):
    source = write(tmp_path)
    with pytest.raises(DataError, match=rf"{shared} of the \d+ examples of test .* {names}: take"):
        load(source, None, None, 0)
    kept = load(source, None, None, 0, on_leak="keep")
    told = "training examples that equal one that is tested on"
    assert kept.summary()["found"][f"kept: {told}"] == shared
    if shared == len(kept.train):
        with pytest.raises(DataError, match="on_leak=drop leaves nothing to train on"):
            load(source, None, None, 0, on_leak="drop")
        return
    dropped = load(source, None, None, 0, on_leak="drop")
    assert len(dropped.train) == len(kept.train) - shared
    assert len(dropped.test) == len(kept.test)
    assert dropped.found.counts[f"left out: {told}"] == shared
    of = lambda part: part.inputs if part.texts is None else part.texts
    train, test = content_ids([of(dropped.train), of(dropped.test)])
    assert not set(train.tolist()) & set(test.tolist())


def test_what_is_held_out_here_equals_nothing_that_is_trained_on(tmp_path):
    write_folder(tmp_path, {"a": 20, "b": 20})
    shutil.copytree(tmp_path / "a", tmp_path / "a" / "again")
    reading = Reading(image_size=16)
    source = sources.folder(root=tmp_path, reading=reading, hold_out=HoldOut(0.5))
    for validation in (None, 0.5):
        data = load(source, None, None, 0, validation_fraction=validation)
        assert data.found.counts["training examples that equal one before"] > 0
        train, test = content_ids([data.train.inputs, data.test.inputs])
        assert not set(train.tolist()) & set(test.tolist())
        np.testing.assert_allclose(len(data.test) / len(data.train), 1, atol=0.5)
    config = har_config.base()
    for config.pretrain.folds in (None, 3):
        for part in held_out_of(config, data.train):
            rest = np.delete(data.train.content, part)
            assert not set(data.train.content[part]) & set(rest)


def test_one_image_in_two_classes_is_named(tmp_path):
    write_folder(tmp_path, {f"{split}/{name}": 4 for split in ("train", "test") for name in "ab"})
    shutil.copy(tmp_path / "train" / "a" / "000.jpg", tmp_path / "train" / "b" / "copy.jpg")
    shutil.copy(tmp_path / "train" / "a" / "001.png", tmp_path / "train" / "a" / "copy.png")
    source = sources.folder(root=tmp_path, reading=Reading(image_size=16))
    message = r"1 training examples .* train/a/000\.jpg as 'a' and train/b/copy\.jpg as 'b': leave"
    with pytest.warns(UserWarning, match=message):
        data = load(source, None, None, 0)
    assert data.found.counts == {"training examples that equal one before": 2}


def test_groups_that_share_an_example_are_one():
    groups, content = np.repeat(np.arange(6), 4), np.arange(24)
    content[20] = content[0]  # the last group and the first
    examples = Examples(np.zeros((24, 1)), np.arange(24) % 2, groups, content=content)
    parts = [*Parts(True).folds(examples, 3, 0), *Parts(True).split(examples, 12, 0)]
    together = [{0, 5} & set(groups[part].tolist()) for part in parts]
    assert all(len(both) in (0, 2) for both in together)


def test_files_are_told_apart_wherever_they_differ(tmp_path):
    rng = np.random.default_rng(0)
    whole = bytearray(rng.bytes(20_000))
    contents = {"same": bytes(whole), "copy": bytes(whole), "short": bytes(whole[:-1])}
    for place in (0, 9_999, 19_999):
        changed = bytearray(whole)
        changed[place] ^= 1
        contents[f"at {place}"] = bytes(changed)
    contents |= {"small": b"ab", "small too": b"ab", "other": b"ac", "empty": b"", "empty too": b""}
    names = [*contents, "gone"]
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    images = ImageFiles(tmp_path, np.array(names), Reading(on_unreadable="skip"))
    (ids,) = content_ids([images])
    numbers = dict(zip(names, ids.tolist(), strict=True))
    for name, number in numbers.items():
        twins = {other for other in numbers if numbers[other] == number} - {name}
        equal = {o for o in contents if contents[o] and contents[o] == contents.get(name)} - {name}
        assert twins == equal, name
    first, second = content_ids([images[np.array([0, 3])], images[np.array([1, 6])]])
    assert first[0] == second[0]
    assert len({*first.tolist(), *second.tolist()}) == 3


def test_what_cannot_be_read_equals_nothing(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
    images = ImageFiles(tmp_path, np.array(["a", "b"]), Reading())
    images.sizes()
    real = os.open
    fail = lambda path, *rest: real(path, *rest) if not path.endswith("b") else real("/none", 0)
    monkeypatch.setattr(os, "open", fail)
    (ids,) = content_ids([images])
    assert ids[0] != ids[1]
