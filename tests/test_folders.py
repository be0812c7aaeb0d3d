"""Folders and tables of images: one class map, files by name, and mistakes that are named."""

import os

import numpy as np
import pytest

from har_jax.data import tables
from har_jax.data.encoded import Reading
from har_jax.data.examples import DataError
from har_jax.data.sources import Place, open_source
from tests.own_images import write_folder

READING = Reading(size=16)


def opened(root, seed=0, **place):
    return open_source("folder", Place(root=root, reading=READING, **place)).load(seed)


def test_a_flat_folder_is_split_by_classes(tmp_path):
    write_folder(tmp_path, {"cat": 20, "Dog": 10, "ant/more": 5, "ant/less": 5})
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "1.png").touch()
    (tmp_path / "cat" / ".DS_Store").touch()
    (tmp_path / "cat" / "notes.txt").touch()
    (tmp_path / "cat" / "loop").symlink_to(tmp_path / "cat")
    data = opened(tmp_path)
    assert data.class_names == ("Dog", "ant", "cat")
    assert np.bincount(data.train.labels).tolist() == [8, 8, 16]
    assert np.bincount(data.test.labels).tolist() == [2, 2, 4]
    paths = [*data.train.inputs.paths, *data.test.inputs.paths]
    assert len(set(paths)) == 40
    for examples in (data.train, data.test):
        for path, label in zip(examples.inputs.paths, examples.labels, strict=True):
            assert path.split(os.sep)[0] == data.class_names[label]
    assert data.train.inputs.paths.tolist() == opened(tmp_path).train.inputs.paths.tolist()
    assert data.train.inputs.paths.tolist() != opened(tmp_path, 1).train.inputs.paths.tolist()
    assert len(opened(tmp_path, test_fraction=0.5).test) == 20


def test_a_class_may_be_a_link_or_be_called_train(tmp_path):
    write_folder(tmp_path, {"train/steam": 5, "car": 5})
    (tmp_path / "boat").symlink_to(tmp_path / "car")
    data = opened(tmp_path)
    assert data.class_names == ("boat", "car", "train")
    assert len(data.train) + len(data.test) == 15


def test_names_that_are_no_unicode_are_refused(tmp_path):
    write_folder(tmp_path, {"a": 2, "b": 2})
    os.rename(tmp_path / "a" / "000.jpg", os.fsencode(tmp_path / "a") + b"/\xff.jpg")
    with pytest.raises(DataError, match="is not UTF-8: rename it"):
        opened(tmp_path)


def test_splits_have_one_class_map(tmp_path):
    write_folder(tmp_path, {"train/b": 3, "train/c": 2, "val/a": 1, "val/c": 1})
    with pytest.warns(UserWarning, match="no training example is of class a"):
        data = opened(tmp_path)
    assert data.class_names == ("a", "b", "c")
    assert data.train.labels.tolist() == [1, 1, 1, 2, 2]
    assert data.test.labels.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: None, "there are no images in .*: folders of classes are needed"),
        (lambda root: write_folder(root, {"": 1}), r"000\.jpg lies in no folder of a class"),
        (
            lambda root: write_folder(root, {"train/a": 1, "val/a": 1, "test/a": 1}),
            "test and val, ",
        ),
        (lambda root: write_folder(root, {"a": 9}), "the classes are a: two are needed at least"),
    ],
)
def test_folders_that_cannot_be_used(tmp_path, make, message):
    root = tmp_path / "images"
    make(root) or root.mkdir(exist_ok=True)
    with pytest.raises(DataError, match=message):
        opened(root)
    with pytest.raises(DataError, match="none' is no folder"):
        opened(tmp_path / "none")


def write_table(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


def test_a_table_names_paths_labels_groups_and_splits(tmp_path):
    write_folder(tmp_path, {"images": 6})
    table = write_table(
        tmp_path / "labels.csv",
        "label,path,split,group",
        "cat,images/000.jpg,train,web",
        "dog,images/001.png,train,web",
        f'"a, b",{tmp_path}/images/002.jpg,train,photo',
        "cat,images/003.png,test,photo",
    )
    data = open_source("csv", Place(table=table, reading=READING)).load(0)
    assert data.class_names == ("a, b", "cat", "dog")
    assert data.group_names == ("photo", "web")
    assert data.train.labels.tolist() == [1, 2, 0]
    assert data.train.group_ids().tolist() == [1, 1, 0]
    assert data.test.group_ids().tolist() == [0]
    whole = [len(file) for file in (data.train.inputs, data.test.inputs)]
    assert whole == [3, 1]
    assert len(data.train.inputs.checksum()) == 32


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["file,label", "images/000.jpg,a"], "has the columns file, label, and lacks path"),
        ([""], "and lacks label and path"),
        (["path,label", "images/000.jpg,"], "line 2 of .* has no label"),
        (["path,label", "images/000.jpg,a", "gone.jpg,a"], "line 3 of .*: there is no file .*gone"),
        (
            ["path,label,split", "images/000.jpg,a,dev"],
            "line 2 .* the split 'dev' is none of train",
        ),
        (["path,label,split", "images/000.jpg,a,test"], "has no line of the split train"),
        (["path,label", "images/000.jpg,a"], r"test_fraction=0\.2 of 1 examples leaves none"),
        (
            ["path,label,split", "images/000.jpg,a,test", "images/001.png,a,train"],
            "classes are a",
        ),
        (
            ["path,label,split", *(f"images/000.jpg,{s},{s}" for s in ("test", "train"))],
            r"images/000\.jpg in train and in test, and 1 such files",
        ),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, lines, message):
    write_folder(tmp_path, {"images": 2})
    table = write_table(tmp_path / "labels.csv", *lines)
    with pytest.raises(DataError, match=message):
        open_source("csv", Place(table=table, reading=READING)).load(0)


def test_a_file_is_one_by_whatever_path(tmp_path):
    write_folder(tmp_path, {"images": 4})
    lines = [f"images/00{n}.{('jpg', 'png')[n % 2]},{'ab'[n % 2]},train" for n in range(4)]
    again = "./images/../images/000.jpg,a"
    table = write_table(tmp_path / "labels.csv", "path,label,split", *lines, f"{again},test")
    with pytest.raises(DataError, match=r"images/000\.jpg in train and in test"):
        tables.list_table(table, None)
    write_table(table, "path,label,split", *lines, f"{again},train")
    with pytest.warns(UserWarning, match="lists 1 files again that it has listed before"):
        tables.list_table(table, None)


def test_a_table_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read: .*No such file"):
        tables.list_table(tmp_path / "gone.csv", None)
    (tmp_path / "binary.csv").write_bytes(b"path,label\n\xff\xfe,a\n")
    with pytest.raises(DataError, match="cannot be read: 'utf-8' codec"):
        tables.list_table(tmp_path / "binary.csv", None)
