"""Folders and tables of images: one class map, files by name, and mistakes that are named."""

import os

import numpy as np
import pytest

from har_jax.data import load, sources
from har_jax.data.examples import DataError
from har_jax.data.hold_out import HoldOut
from har_jax.data.listing.tables import list_table
from har_jax.data.reading.encoded import Reading
from tests.own_images import write_folder

READING = Reading(image_size=16)


def opened(root, seed=0, **options):
    """The data set of a folder."""
    return sources.folder(root=root, reading=READING, **options).load(seed)


def listed(tmp_path, *lines, **options):
    """The data set of a table of these lines."""
    path = write_table(tmp_path / "labels.csv", *lines)
    return sources.table(table=path, reading=READING, **options).load(0)


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
    assert len(opened(tmp_path, hold_out=HoldOut(0.5)).test) == 20
    assert data.found.splits == {
        "train": f"the folder '{tmp_path.name}'",
        "test": f"0.2 of the folder '{tmp_path.name}', at random",
    }
    assert data.found.counts == {
        "left out: files *.txt": 1,
        "left out: hidden folders (.hidden)": 1,
    }


def test_a_class_may_be_a_link_or_be_called_train(tmp_path):
    write_folder(tmp_path, {"train": 5, "car/front": 5})
    (tmp_path / "boat").symlink_to(tmp_path / "car")
    data = opened(tmp_path)
    assert data.class_names == ("boat", "car", "train")
    assert len(data.train) + len(data.test) == 15


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train", "test"),
        ("Train", "Test"),
        ("training", "testing"),
        ("train", "dev"),
        ("TRAIN", "eval"),
        ("train", "Val"),
        ("train_set", "val2017"),
        ("trainset", "test-images"),
    ],
)
def test_splits_in_usual_spellings(tmp_path, train, test):
    write_folder(tmp_path, {f"{split}/{name}": 2 for split in (train, test) for name in "ab"})
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "x.json").touch()
    data = opened(tmp_path)
    assert data.class_names == ("a", "b")
    assert len(data.train) == len(data.test) == 4
    assert data.found.splits == {"train": f"the folder '{train}'", "test": f"the folder '{test}'"}
    assert data.found.counts == {"left out: files *.json": 1}


def test_what_is_validated_on_is_a_further_test_set(tmp_path):
    splits = ("train", "test", "val")
    write_folder(tmp_path, {f"{split}/{name}": 2 for split in splits for name in "ab"})
    data = opened(tmp_path)
    assert [len(part) for part in (data.train, data.test, data.others["validation"])] == [4, 4, 4]
    assert data.others["validation"].inputs.paths[0].startswith("val/")
    lines = [f"{split}/{name}/000.jpg,{name},{split}" for split in splits for name in "ab"]
    data = listed(tmp_path, "path,label,split", *lines)
    assert [len(part) for part in (data.train, data.test, data.others["validation"])] == [2, 2, 2]
    assert data.found.splits["validation"] == "lines of the split 'val'"


@pytest.mark.parametrize(
    "folders",
    [
        ("train/a", "train/b", "test/a", "extra/a"),  # beside splits there are images
        ("test/a", "test/b", "rest/a"),
        ("my_train/a", "my_train/b", "my_test/a"),
        ("val/a", "test/a"),
    ],
)
def test_what_may_be_splits_or_classes_is_refused(tmp_path, folders):
    write_folder(tmp_path, dict.fromkeys(folders, 5))
    with pytest.raises(DataError, match=r"can be read in two ways: .* may be splits") as refused:
        opened(tmp_path)
    assert "has_splits=True" in str(refused.value)
    assert "has_splits=False" in str(refused.value)
    classes = opened(tmp_path, has_splits=False)
    assert set(classes.class_names) == {folder.split("/")[0] for folder in folders}
    if "train/a" in folders:
        splits = opened(tmp_path, has_splits=True)
        assert splits.class_names == ("a", "b")
        assert splits.found.counts == {"left out: images outside of the folders of splits": 5}
    else:
        with pytest.raises(DataError, match="has no split called train"):
            opened(tmp_path, has_splits=True)


def test_splits_of_different_classes_are_refused(tmp_path):
    write_folder(tmp_path, {f"{split}/{split}/{c}": 2 for split in ("train", "test") for c in "ab"})
    source = sources.folder(root=tmp_path, reading=READING)
    with pytest.raises(DataError, match=r"trained on are train, tested on test: .* too high"):
        load(source, None, None, 0)
    write_folder(tmp_path / "files", {"train/a": 2, "train/b": 2, "test/a": 1, "test/c": 1})
    source = sources.folder(root=tmp_path / "files", reading=READING)
    with pytest.warns(UserWarning, match="no training example is of class c: none will be"):
        load(source, None, None, 0)
    (tmp_path / "files" / "train" / "a" / "empty.png").touch()
    source = sources.folder(root=tmp_path / "files", reading=READING)
    with pytest.raises(DataError, match=r"train/a/empty.png is empty: remove it"):
        load(source, None, None, 0)


def test_two_folders_of_one_split_are_refused(tmp_path):
    write_folder(tmp_path, {"train/a": 1, "train/b": 1, "val/a": 1, "dev/a": 1})
    with pytest.raises(DataError, match="'dev' and 'val', and both are called as a set for valid"):
        opened(tmp_path)


def test_images_in_the_folder_of_a_split_are_in_no_class(tmp_path):
    write_folder(tmp_path, {"train": 1, "test": 1})
    with pytest.raises(DataError, match=r"test/000.jpg lies in no .* or set config.data.has_spl"):
        opened(tmp_path)


def test_what_the_installed_pillow_opens_is_read(tmp_path):
    write_folder(tmp_path, {"a": 5, "b": 10, "c": 10, "e": 10, "d": 1, "empty": 0})
    for name, suffix in {"b": ".jfif", "c": ".JPG", "e": ".avif"}.items():
        for path in list((tmp_path / name).iterdir()):
            path.rename(path.with_suffix(suffix if path.suffix == ".jpg" else f"{suffix}2"))
    (tmp_path / "d" / "000.jpg").rename(tmp_path / "d" / "readme")
    (tmp_path / "b" / "film.mpg").touch()
    with pytest.warns(UserWarning, match="has folders without an image, .*: 'd', 'empty'"):
        data = opened(tmp_path)
    assert data.class_names == ("a", "b", "c", "e")
    assert data.found.counts == {
        "left out: files *.jfif2": 5,
        "left out: files *.jpg2": 5,
        "left out: files *.avif2": 5,
        "left out: files *.mpg": 1,
        "left out: files without a suffix": 1,
    }


def test_names_that_are_no_unicode_are_refused(tmp_path):
    write_folder(tmp_path, {"a": 2, "b": 2})
    os.rename(tmp_path / "a" / "000.jpg", os.fsencode(tmp_path / "a") + b"/\xff.jpg")
    with pytest.raises(DataError, match="is not UTF-8: rename it"):
        opened(tmp_path)


def test_splits_have_one_class_map(tmp_path):
    write_folder(tmp_path, {"train/b": 3, "train/c": 2, "val/a": 1, "val/c": 1})
    data = opened(tmp_path)
    assert data.class_names == ("a", "b", "c")
    assert data.train.labels.tolist() == [1, 1, 1, 2, 2]
    assert data.test.labels.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: None, "there are no images in .*: folders of classes are needed"),
        (
            lambda root: (root / "a").mkdir(parents=True) or (root / "a" / "x.txt").touch(),
            r"1 files \*.txt",
        ),
        (lambda root: write_folder(root, {"": 1}), r"000\.jpg lies in no folder of a class"),
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
    data = sources.table(table=table, reading=READING).load(0)
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
        (["file,label", "images/000.jpg,a"], "has the columns 'file', 'label', and lacks path"),
        ([""], r"has the columns none, and lacks path \(or text\) and label"),
        (
            ["path/label"],
            "has the columns 'path/label', and lacks path .*its first line has to name",
        ),
        (["path,label", "images/000.jpg,a", "path,label"], "line 3 of .* is the header again"),
        (["path,label", "images/000.jpg,"], "1 labels .*: '' .*the first is of line 2 of"),
        (["path,label", "images/000.jpg,a", "images/001.png,b,c"], "line 3 .* 3 cells for 2 colu"),
        (["path,label,group", "images/000.jpg,a"], "line 2 .* 2 cells for 3 col.*: fill up"),
        (["path,label,group", "images/000.jpg,a,"], "line 2 .* has no group"),
        (["path,label,label", "images/000.jpg,a,b"], "several columns called label"),
        (["path,label, Label", "images/000.jpg,a,b"], "several columns called label"),
        (
            ["path,label", "images/000.jpg,a", "images/../images/000.jpg,b"],
            "line 3 of .* labels images/../images/000.jpg 'b', and line 2 labels it 'a': leave",
        ),
        (["path,label", 'images/000.jpg,"a'], "the row that begins at line 2 .* marks, and those"),
        (["path,label", 'images/000.jpg,"a', 'b"'], "has a label of several lines"),
        (
            ["path,label,split", "images/000.jpg,a,val", "images/001.png,a,dev"],
            "'val' and 'dev', and both",
        ),
        (["path,label", "images/000.jpg,a", "gone.jpg,a"], "line 3 of .*: there is no file .*gone"),
        (
            ["path,label,split", "images/000.jpg,a,other"],
            "line 2 .* the split 'other' is none of train",
        ),
        (["path,label,split", "images/000.jpg,a,test"], "has no split called train, only test"),
        (["path,label", "images/000.jpg,a"], r"test_fraction=0\.2 of 1 examples leaves none"),
        (
            ["path,label,split", "images/000.jpg,a,test", "images/001.png,a,train"],
            "classes are a",
        ),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, lines, message):
    write_folder(tmp_path, {"images": 2})
    with pytest.raises(DataError, match=message):
        listed(tmp_path, *lines)


def test_columns_are_known_in_any_case_and_those_that_are_not_read_are_told(tmp_path):
    write_folder(tmp_path, {"images": 4})
    files = sorted((tmp_path / "images").iterdir())
    lines = [f"{file},{label},x,1" for file, label in zip(files, "aabb", strict=True)]
    with pytest.warns(UserWarning, match="has a column 'splits', which is not read: .* 'split'"):
        data = listed(tmp_path, "Path, LABEL,splits,id", *lines, hold_out=HoldOut(0.5))
    assert data.found.counts == {"left out: columns (splits, id)": 2}


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_marks_between_cells_are_known(tmp_path, mark):
    rows = [f'"a{mark} {n}"{mark}{"pn"[n % 2]}' for n in range(8)]
    data = listed(tmp_path, f'"text"{mark}label', *rows, hold_out=HoldOut(0.5))
    texts = {*data.train.inputs.tolist(), *data.test.inputs.tolist()}
    assert texts == {f"a{mark} {n}" for n in range(8)}


def test_a_text_that_swallows_rows_is_refused(tmp_path):
    lines = ['"Great" is not what I would say,p', "fine,p", "dull,n", '"so ""good,n', "well,p"]
    lines[0] = '"Great is not what I would say,p'
    lines[3] = 'so good",n'
    with pytest.raises(DataError, match=r"ends on line 5 of .* by itself, 'fine,p': a quotation"):
        listed(tmp_path, "text,label", *lines)
    rows = [f'"a text\nof lines, {n}\n",{"pn"[n % 2]}' for n in range(8)]
    data = listed(tmp_path, "text,label", *rows, '" ",p', ",n", hold_out=HoldOut(0.5))
    assert data.found.counts == {"texts of several lines": 8, "empty texts": 2}


def test_a_column_whose_cells_are_splits_is_told_of(tmp_path):
    rows = [f"a {n},{'pn'[n % 2]},{('train', 'val')[n // 4]}" for n in range(8)]
    with pytest.warns(UserWarning, match="'set' whose cells are train, val, and which is not read"):
        listed(tmp_path, "text,label,set", *rows, hold_out=HoldOut(0.5))


def test_splits_within_the_folders_of_classes_are_refused(tmp_path):
    write_folder(tmp_path, {f"{name}/{split}": 5 for name in "ab" for split in ("train", "test")})
    with pytest.raises(DataError, match="folders of classes that hold 'test', 'train', which may"):
        opened(tmp_path)
    assert opened(tmp_path, has_splits=False).class_names == ("a", "b")


def test_texts_with_commas_are_no_classes(tmp_path):
    with pytest.raises(DataError, match=r"line 2 .* has 3 cells for 2 col.*' but slow', 'pos'"):
        listed(tmp_path, "text,label", "good, but slow,pos")
    with pytest.raises(DataError, match=r"line 2 .* 3 cells .* in quotation marks"):
        listed(tmp_path, "label,text", "pos,good, but slow")
    rows = ('"good, but slow",pos', '"a ""so-called"" film",neg', "bad,neg", "fine,pos")
    data = listed(tmp_path, "text,label", *rows, hold_out=HoldOut(0.5))
    texts = {*data.train.inputs.tolist(), *data.test.inputs.tolist()}
    assert texts == {"good, but slow", 'a "so-called" film', "bad", "fine"}
    with pytest.raises(DataError, match=r"begins at line 2 .* within it twice"):
        listed(tmp_path, "text,label", '"a "so-called" film",neg')


@pytest.mark.parametrize("name", ["-1", "NaN", "None", "null", "N/A", ""])
def test_missing_labels_of_a_table(tmp_path, name):
    third = HoldOut(1 / 3)
    write_folder(tmp_path, {"images": 9})
    rows = [f"images/00{n}.{('jpg', 'png')[n % 2]}" for n in range(9)]
    lines = [f"{path},{label}" for path, label in zip(rows, [*"aaabbb", *[name] * 3], strict=True)]
    with pytest.raises(DataError) as refused:
        listed(tmp_path, "path,label", *lines)
    assert str(refused.value).startswith(f"3 labels of {tmp_path}/labels.csv say that there is no")
    assert f": {name!r} (3); the first is of line 8 of" in str(refused.value)
    data = listed(tmp_path, "path,label", *lines, on_missing_label="skip", hold_out=third)
    assert data.class_names == ("a", "b")
    assert len(data.train) + len(data.test) == 6
    assert data.found.counts == {f"left out: labels {name!r}": 3}
    kept = listed(tmp_path, "path,label", *lines, on_missing_label="keep", hold_out=third)
    assert set(kept.class_names) == {"a", "b", name}


def test_missing_labels_of_a_folder_and_signs(tmp_path):
    write_folder(tmp_path / "a", {"cat": 5, "dog": 5, "unlabeled": 2})
    with pytest.raises(DataError, match=r"2 labels .* the first is of .*unlabeled/000.jpg: leave"):
        opened(tmp_path / "a")
    assert opened(tmp_path / "a", on_missing_label="skip").class_names == ("cat", "dog")
    write_folder(tmp_path / "b", {"-1": 5, "1": 5})
    assert opened(tmp_path / "b").class_names == ("-1", "1")


def test_a_fraction_to_test_on_is_not_passed_over(tmp_path):
    write_folder(tmp_path, {f"{split}/{name}": 2 for split in ("train", "test") for name in "ab"})
    with pytest.raises(
        DataError, match=r"test_fraction=0.3 is not read, since .* has a test split"
    ):
        opened(tmp_path, hold_out=HoldOut(0.3))


def test_a_table_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read: .*No such file"):
        list_table(tmp_path / "gone.csv", None)
    (tmp_path / "binary.csv").write_bytes(b"path,label\n\xff\xfe,a\n")
    with pytest.raises(DataError, match="cannot be read: 'utf-8' codec"):
        list_table(tmp_path / "binary.csv", None)
