"""Images named in lists, as ImageNet-LT is published, in small, and lists that are none."""

import json
import time

import numpy as np
import pytest

from har_jax.config import files as config_files
from har_jax.config import long_tails, validate
from har_jax.data import load
from har_jax.data.examples import DataError
from har_jax.data.hold_out import HoldOut
from har_jax.data.listing.lists import list_lists
from har_jax.data.reading.encoded import Reading
from har_jax.data.sources import lists
from har_jax.experiment.algorithm import Experiment
from tests.own_images import write_folder

LISTS = {"train": "ImageNet_LT_train.txt", "test": "ImageNet_LT_test.txt"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A long tail of three synsets, whose order is not that of their ids."""
    root = tmp_path_factory.mktemp("imagenet")
    counts = {"train/n3": 12, "train/n1": 6, "train/n 2": 3}
    counts |= {f"val/{name.partition('/')[2]}": 4 for name in counts}
    write_folder(root, counts, size=(32, 32))
    ids = {"n3": 0, "n1": 1, "n 2": 2}
    for list_name, folder in zip(LISTS.values(), ("train", "val"), strict=True):
        images = sorted((root / folder).glob("*/*"))
        write(root, list_name, *(f"{p.relative_to(root)} {ids[p.parent.name]}" for p in images))
    return root


def write(root, name, *lines):
    (root / name).write_text("\n".join(lines) + "\n", "utf-8")
    return name


def opened(root, **options):
    options = {"train_list": LISTS["train"], "test_list": LISTS["test"], **options}
    return lists(root=root, reading=Reading(image_size=16), **options).load(0)


def test_images_have_the_ids_of_the_lists(root, tmp_path):
    data = opened(root)
    assert data.class_names == ("0", "1", "2")
    assert np.bincount(data.train.labels).tolist() == [12, 6, 3]
    assert np.bincount(data.test.labels).tolist() == [4, 4, 4]
    for examples in (data.train, data.test):
        for path, label in zip(examples.inputs.paths, examples.labels, strict=True):
            assert path.split("/")[1] == ("n3", "n1", "n 2")[label]
    assert data.found.splits == {split: f"the list {name}" for split, name in LISTS.items()}
    names = write(tmp_path, "names.txt", "tench, Tinca tinca", "goldfish", "great white shark")
    named = opened(root, class_list=str(tmp_path / names))
    assert named.class_names == ("tench, Tinca tinca", "goldfish", "great white shark")
    np.testing.assert_array_equal(named.train.labels, data.train.labels)


def test_ids_are_numbers_however_many(tmp_path):
    write_folder(tmp_path, {"a": 12})
    paths = sorted(path.name for path in (tmp_path / "a").iterdir())
    write(tmp_path, "t.txt", *(f"a/{path} {11 - number}" for number, path in enumerate(paths)))
    data = opened(tmp_path, train_list="t.txt", test_list="t.txt")
    assert data.class_names == tuple(map(str, range(12)))
    assert data.train.labels.tolist() == list(range(11, -1, -1))


def test_lists_of_other_programs(root, tmp_path):
    text = (root / LISTS["train"]).read_text()
    plain = opened(root).train
    for number, written in enumerate(
        (
            text.replace("\n", "\r\n"),
            "\ufeff" + text,
            text.replace("\n", "\n\n") + " \n",
            text.replace("\n", "\t\n"),
            text.replace(" 0\n", "\t0\n"),
            text.replace("train/", "./train/"),
            text.replace("train/", f"{root}/train/"),
            text.rstrip("\n"),
        )
    ):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(written.encode())
        found = opened(root, train_list=str(path)).train
        np.testing.assert_array_equal(found.labels, plain.labels)
        assert [found.inputs.file(row).resolve() for row in range(len(found))] == [
            plain.inputs.file(row).resolve() for row in range(len(plain))
        ]


def test_splits_are_those_of_folders_and_tables(root, tmp_path):
    train = (root / LISTS["train"]).read_text().splitlines()
    rest, some = write(tmp_path, "rest.txt", *train[::2]), write(tmp_path, "some.txt", *train[1::2])
    rest, some = str(tmp_path / rest), str(tmp_path / some)
    data = opened(root, train_list=rest, validation_list=some)
    assert [len(part) for part in (data.train, data.test)] == [11, 12]
    assert len(data.others["validation"]) == 10
    data = opened(root, train_list=rest, test_list=None, validation_list=some)
    assert (len(data.test), data.others) == (10, {})
    assert len(opened(root, train_list=rest, meta_list=some).meta) == 10
    held_out = opened(root, test_list=None, hold_out=HoldOut(0.5))
    assert len(held_out.train) + len(held_out.test) == 21
    with pytest.raises(DataError, match=r"test_fraction=0.5 is not read, since .* has a test spl"):
        opened(root, hold_out=HoldOut(0.5))


def test_an_image_in_two_lists_is_a_leak(root, tmp_path):
    lines = [(root / name).read_text().strip() for name in LISTS.values()]
    both = str(tmp_path / write(tmp_path, "both.txt", *lines))
    source = lists(root=root, train_list=both, test_list=LISTS["test"])
    with pytest.raises(DataError, match="12 of the 12 examples of test are in train too"):
        load(source, None, None, 0)
    assert len(load(source, None, None, 0, on_leak="drop").train) == 21


def test_classes_without_examples(root, tmp_path):
    lines = (root / LISTS["train"]).read_text().splitlines()
    few = write(tmp_path, "few.txt", *(entry for entry in lines if entry[-1] != "1"))
    source = lists(root=root, train_list=str(tmp_path / few), test_list=LISTS["test"])
    with pytest.warns(UserWarning, match="no training example is of class 1: none will be predic"):
        data = load(source, None, None, 0)
    assert data.class_names == ("0", "1", "2")
    one = str(tmp_path / write(tmp_path, "one.txt", lines[0][:-1] + "1"))
    with pytest.raises(DataError, match=r"ids from 1 to 1, and none is 0: number the classes from"):
        lists(root=root, train_list=one)
    ends = (lines[0][:-1] + "0", lines[1][:-1] + "999999999")
    far = str(tmp_path / write(tmp_path, "far.txt", *ends))
    with pytest.raises(DataError, match=r"have 2 of the ids 0 to 999999999: .*class_list"):
        opened(root, train_list=far, test_list=None)
    ten = str(tmp_path / write(tmp_path, "ten.txt", *"abcdefghij"))
    assert opened(root, class_list=ten).class_names == tuple("abcdefghij")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a/000.jpg 0", "", "a/001.png"], "line 3 of .*t.txt is 'a/001.png': a path and a class"),
        (
            ["a/000.jpg 0", "7"],
            "line 2 of .*t.txt is '7': a path and a class from 0 on are n",
        ),
        (["a/000.jpg cat"], "is 'a/000.jpg cat'"),
        (["a/000.jpg -1"], "is 'a/000.jpg -1': .*; if it stands for no label, remove the line"),
        (["a/000.jpg 1.0"], "is 'a/000.jpg 1.0'"),
        (["a/000.jpg ²"], "is 'a/000.jpg ²'"),
        (["a/000.jpg " + "9" * 5000], "line 1 of .* is 'a/000.jpg 9*': a path and a class"),
        (["path,label", "a/000.jpg,0"], "is 'path,label': .* divided by commas is .*source=csv"),
        (["a/0\0.jpg 1"], r"is 'a/0\\x00.jpg 1'"),
        ([], r"t.txt has no lines: a path and the id of a class are needed on each"),
        (["b/000.jpg 0"], "line 1 of .*t.txt: there is no file .*/b/000.jpg: .*config.data.root="),
        (["../a/000.jpg 0"], "there is no file"),
        ([r"a\000.jpg 0"], "they are written with / between folders"),
        (["a/" + "x" * 300 + ".jpg 0"], "there is no file"),
        (["a/000.jpg 0", "./a/000.jpg 1"], r"line 2 of .* labels ./a/000.jpg 1, and line 1 of .*t"),
    ],
)
def test_lists_that_cannot_be_used(tmp_path, lines, message):
    write_folder(tmp_path, {"a": 2})
    write(tmp_path, "t.txt", *lines)
    with pytest.raises(DataError, match=message):
        opened(tmp_path, train_list="t.txt", test_list=None)


def test_a_label_that_two_lists_say_differently(root, tmp_path):
    line = (root / LISTS["train"]).read_text().splitlines()[2]
    other = str(tmp_path / write(tmp_path, "other.txt", "", line[:-1] + "1"))
    with pytest.raises(DataError, match=r"line 2 of .*other.txt labels .* 1, and line 3 of .*_tra"):
        opened(root, validation_list=other)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a", "b"], "line 1 of .*train.txt is .* 2': a path and a class from 0 to 1 are needed"),
        (["a", "", "c"], "line 2 of .*names.txt is blank: the names of classes are needed, one a"),
        (["a", "b", "a"], "line 3 of .*names.txt is 'a', as line 1 is: give classes different"),
    ],
)
def test_names_of_classes_that_cannot_be(root, tmp_path, lines, message):
    names = str(tmp_path / write(tmp_path, "names.txt", *lines))
    with pytest.raises(DataError, match=message):
        opened(root, class_list=names)


def test_lists_that_are_not_there(root, tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"test_list='x.txt': there is no file .*/x.txt: a path"):
        opened(root, test_list="x.txt")
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "here.txt", "a 0")
    with pytest.raises(DataError, match=r"or absolute, as .*/here.txt is"):
        opened(root, test_list="here.txt")
    with pytest.raises(DataError, match=r"config.data.class_list='no\\x00': there is no file"):
        opened(root, class_list="no\0")
    with pytest.raises(DataError, match=r"config.data.root='.*nowhere' is no folder"):
        opened(tmp_path / "nowhere")
    (tmp_path / "utf16.txt").write_text("a 0", "utf-16")
    with pytest.raises(DataError, match=r"utf16.txt cannot be read: .*: save it in UTF-8"):
        opened(root, test_list=str(tmp_path / "utf16.txt"))


def test_a_long_list_is_read_in_seconds_without_asking_for_its_files(root, tmp_path):
    first = (root / LISTS["train"]).read_text().splitlines()[0]
    lines = [f"train/n{k % 1000:08}/n{k % 1000:08}_{k}.JPEG {k % 1000}" for k in range(115_845)]
    path = write(tmp_path, "long.txt", first, *lines)
    begun = time.process_time()
    found = list_lists(root, {"train": str(tmp_path / path)})
    assert time.process_time() - begun < 5
    assert len(found.items["train"]) == 115_846
    source = lists(root=root, train_list=str(tmp_path / path), test_list=LISTS["test"])
    with pytest.raises(DataError, match=r"n00000000_0.JPEG cannot be found: No such file"):
        load(source, None, None, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:of what was held out", "ignore:small groups keep")
def test_the_config_of_imagenet_lt_trains_on_small_images(root, tmp_path):
    config = long_tails.imagenet_lt()
    config.data.root = str(root)
    config.data.image_size = 16
    config.model.name, config.model.depth, config.model.widths = "convnet", None, (4,)
    config.regularizer.layers = "normalization"
    config.batch_size, config.devices = 4, 1
    config.pretrain.epochs = config.train.epochs = 1.0
    validate(config)
    Experiment(config, tmp_path).run()
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert results["data"]["train_count"] == [12, 6, 3]
    assert results["data"]["splits"]["test"] == "the list ImageNet_LT_test.txt"
    assert set(results["means"]) == {"erm", "har"}


@pytest.mark.parametrize("name", ["imagenet_lt", "places_lt", "inaturalist2018"])
def test_configs_of_long_tails_go_by_name(name):
    assert config_files.find(name) is not None
    config = getattr(long_tails, name)()
    validate(config)
    assert config.regularizer.derivative == "first_order"
