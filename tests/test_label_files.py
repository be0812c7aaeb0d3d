"""Labels of a file are those of the examples of these ids, or the job ends with one line."""

import dataclasses
import html
import json
import pathlib
import re
import shutil
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_digits

from har_jax import config as har_config
from har_jax.config import recipes
from har_jax.data import load
from har_jax.data.corruption import Step
from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.label_files import read_label_file
from har_jax.data.sources import Source, folder, table, tfds
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.artefacts import Artefacts
from har_jax.experiment.trainer import Trainer
from har_jax.experiment.workdir import WorkdirError, refuse_differences
from tests import tiny_tfds
from tests.own_images import write_folder

ROOT = pathlib.Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
NAMES = ("ant", "bee", "cow")


def blobs(size=60, names=NAMES, ids=None, test_ids=None):
    """A source of arrays whose labels go round, with as many other examples to test on."""
    rng = np.random.default_rng(0)
    labels = np.arange(size, dtype=np.int32) % len(names)
    part = lambda ids: Examples(rng.normal(size=(size, 2, 2, 1)).astype("f4"), labels, ids=ids)
    ids = np.array([f"x{row}" for row in range(size)]) if ids is None else ids
    return Source("images", names, lambda seed: Dataset(part(ids), part(test_ids), names), "blobs")


def save(path, ids, labels):
    np.savez(path, id=np.array(ids), label=np.array(labels))
    return read_label_file(str(path))


def given_to(size=60, seed=0, rate=0.2):
    """Ids of the blobs, and labels some of which are not theirs."""
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % 3
    labels = np.where(rng.random(size) < rate, (labels + 1) % 3, labels)
    return [f"x{row}" for row in range(size)], labels


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["ids", "names", "bytes", "table", "table of ids"])
def test_rows_in_any_order_give_the_same_labels(tmp_path, kind, seed):
    ids, labels = given_to(seed=seed)
    order = np.random.default_rng(seed).permutation(len(ids))
    shuffled = [ids[row] for row in order]
    named = np.array(NAMES)[labels[order]]
    if kind.startswith("table"):
        cells = labels[order] if kind == "table of ids" else named
        mark = (",", ";", "\t")[seed]
        rows = [f"{label}{mark}{id}" for id, label in zip(shuffled, cells, strict=True)]
        (tmp_path / "given.csv").write_text("\n".join([f"label{mark}id", *rows]))
        file = read_label_file(str(tmp_path / "given.csv"))
    elif kind == "bytes":
        file = save(tmp_path / "given.npz", np.char.encode(shuffled), np.char.encode(named))
    else:
        file = save(tmp_path / "given.npz", shuffled, named if kind == "names" else labels[order])
    data = load(blobs(), None, None, 0, labels=file)
    np.testing.assert_array_equal(data.train.labels, labels)
    np.testing.assert_array_equal(data.clean_labels, np.arange(60) % 3)
    np.testing.assert_array_equal(data.test.labels, np.arange(60) % 3)
    assert data.train.labels.dtype == np.int32
    assert data.noisy_classes == (0, 1, 2)


REFUSED = {
    "missing example": (lambda i, n: (i[1:], n[1:]), r"1 of the 60 training .* no label .*'x0'"),
    "twice": (lambda i, n: (["x1", *i[1:]], n), r"row 1 of .* has the id 'x1', as row 0 has"),
    "unknown": (lambda i, n: ([*i, "y"], [*n, 0]), r"row 60 of .*'y', which no example of blobs"),
    "lengths": (lambda i, n: (i, n[1:]), r"has 60 ids for 59 labels: save arrays id and label"),
    "range": (lambda i, n: (i, [3, *n[1:]]), r"row 0 of .* names class 3, which is none of the 3"),
    "name": (
        lambda i, n: (i, ["bea", *np.array(NAMES)[n[1:]]]),
        r"row 0 of .* names class 'bea', which is none .* of blobs: did you mean 'bee'\?",
    ),
    "-1": (
        lambda i, n: (i, [*n[:2], -1, *n[3:]]),
        r"1 labels of .* say that there is none \('-1'\), the first in row 2, of 'x2': give",
    ),
    "no name": (
        lambda i, n: (i, ["", "N/A", *np.array(NAMES)[n[2:]]]),
        r"2 labels of .* say that there is none \('', 'N/A'\), the first in row 0, of 'x0'",
    ),
    "NaN": (
        lambda i, n: (i, [*n[:4], np.nan, *n[5:]]),
        r"labels of .* are float64\[60\]; row 4 is missing: ids of classes, whole numbers, or",
    ),
    "no id": (lambda i, n: (["", *i[1:]], n), r"row 0 of .* has no id"),
    "shape": (lambda i, n: (i, np.eye(60, 3, dtype=int)), r"int64\[60, 3\]: ids of classes"),
    "kind of ids": (lambda i, n: (np.arange(60.0), n), r"id of .* is float64\[60\]: strings or"),
    "other ids": (
        lambda i, n: ([f"train_{id}" for id in i], n),
        r"60 of the 60 .*'x0'; its ids are such as 'train_x0': give",
    ),
    "none": (lambda i, n: (np.array([], str), np.array([], int)), r"has no labels"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, change):
    make, message = REFUSED[change]
    with pytest.raises(DataError, match=message) as raised:
        load(blobs(), None, None, 0, labels=save(tmp_path / "x.npz", *make(*map(list, given_to()))))
    assert "\n" not in str(raised.value)
    assert "x.npz" in str(raised.value)


def test_what_is_wrong_with_labels_alone_is_told_before_data_are_loaded(tmp_path):
    def never(seed):
        raise AssertionError("loaded")

    source = Source("images", NAMES, never, "blobs")
    ids, labels = given_to()
    for wrong, message in ((9, "none of the 3 classes"), (-1, "say that there is none")):
        file = save(tmp_path / "x.npz", ids, [wrong, *labels[1:]])
        with pytest.raises(DataError, match=message):
            load(source, None, None, 0, labels=file)


def write_objects(path):
    np.savez(path, id=np.array(["a", None], object), label=[0, 1])


def write_others(path):
    np.savez(path, aggregate=[0, 1], random1=[1, 1])


def write_half(path):
    np.savez(path, id=["a"] * 99, label=[0] * 99)
    path.write_bytes(path.read_bytes()[:300])


def write_array(path):
    with path.open("wb") as file:
        np.save(file, [0, 1])


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("no.npz", lambda path: None, r"labels='.*no\.npz' is no file"),
        ("a.pt", pathlib.Path.touch, r"labels='.*a\.pt' is of no kind that is known: \.csv, \.npz"),
        ("a.npz", write_objects, r"cannot be read .*: save arrays id and label.*is unpickled"),
        (
            "a.npz",
            write_others,
            r"has the arrays aggregate, random1, and lacks id and label: save.*labels\.md",
        ),
        ("a.npz", write_array, r"a\.npz' cannot be read \(TypeError"),
        (
            "a.npz",
            lambda path: np.savez(path, id=["a"], label=1),
            r"labels of .* are int64\[\]: ids",
        ),
        (
            "a.npz",
            lambda path: np.savez(path, id=[b"\xff"], label=[1]),
            r"cannot be read \(UnicodeDecodeError",
        ),
        ("a.npz", write_half, r"a\.npz' cannot be read"),
        ("a.npz", pathlib.Path.touch, r"a\.npz' cannot be read"),
        ("a.csv", pathlib.Path.touch, r"has the columns none: its first line has to name one id"),
        ("a.csv", lambda path: path.write_text("path,label\na,b"), r"has the columns path, label:"),
        ("a.csv", lambda path: path.write_text("id,label,id\n1,b,1"), r"has to name one id and"),
        ("a.csv", lambda path: path.write_text("id,label\nx,1,2"), r"line 2 of .* has 3 cells for"),
        ("a.csv", lambda path: path.write_bytes(b"id,label\nx,\xff"), r"save it as CSV in UTF-8"),
        (
            "a.csv",
            lambda path: path.write_text("id,label\nx,1\ny,2\nx,1"),
            r"line 4 of .* has the id 'x', as line 2 has: leave one",
        ),
        ("a.npy", lambda path: np.save(path, [0, 1]), r"without ids: put it beside the ids\.txt"),
    ],
)
def test_files_that_are_none(tmp_path, name, write, message):
    write(tmp_path / name)
    with pytest.raises(DataError, match=message) as raised:
        read_label_file(str(tmp_path / name))
    assert "\n" not in str(raised.value)


def test_a_missing_file_ends_the_job_before_anything_else(tmp_path):
    config = har_config.base()
    config.data.source, config.data.root = "folder", str(tmp_path / "nowhere")
    config.data.labels = str(tmp_path / "gone.csv")
    har_config.validate(config)
    with pytest.raises(DataError, match=r"config\.data\.labels='.*gone\.csv' is no file"):
        Experiment(config, tmp_path / "run").run()
    assert not (tmp_path / "run").exists()


def test_a_cell_that_is_a_name_and_the_id_of_another_is_refused(tmp_path):
    names = ("1", "10", "2")
    ids, labels = given_to()
    rows = [f"{id},{names[label]}" for id, label in zip(ids, labels, strict=True)]
    (tmp_path / "x.csv").write_text("\n".join(["id,label", *rows]))
    message = r"names class 1, which is the name of the class of id 0 of blobs and the id of '10'"
    with pytest.raises(DataError, match=message):
        load(blobs(names=names), None, None, 0, labels=read_label_file(str(tmp_path / "x.csv")))
    as_names = save(tmp_path / "names.npz", ids, np.array(names)[labels])
    data = load(blobs(names=names), None, None, 0, labels=as_names)
    np.testing.assert_array_equal(data.train.labels, labels)
    as_ids = save(tmp_path / "ids.npz", ids, labels)
    with pytest.raises(DataError, match=r"row 1 of .* names class 1, which is the id of .*'10'"):
        load(blobs(names=names), None, None, 0, labels=as_ids)


def test_ids_that_are_not_one_examples_own(tmp_path):
    ids, labels = given_to()
    file = save(tmp_path / "x.npz", ids, labels)
    doubled = blobs(ids=np.array(["x0", *ids[:1], *ids[2:]]))
    with pytest.raises(DataError, match=r"2 training examples of blobs have the id 'x0'"):
        load(doubled, None, None, 0, labels=file)
    plain = blobs().load(0)
    nameless = Dataset(
        *(dataclasses.replace(part, ids=None) for part in (plain.train, plain.test)), NAMES
    )
    with pytest.raises(DataError, match=r"joined on ids, and the training examples .* have none"):
        load(Source("images", NAMES, lambda seed: nameless, "blobs"), None, None, 0, labels=file)


def test_labels_as_of_another_order_are_warned_of(tmp_path):
    ids, labels = given_to(600)
    shifted = save(tmp_path / "x.npz", ids, np.roll(labels, 1))
    with pytest.warns(UserWarning, match=r"19% of the labels .* in a random order 33% would be"):
        load(blobs(600), None, None, 0, labels=shifted)


def test_tests_keep_their_own_labels_and_may_be_in_the_file(tmp_path):
    ids, labels = given_to()
    tests = [f"t{row}" for row in range(60)]
    file = save(tmp_path / "x.npz", [*tests, *ids], [*np.zeros(60, int), *labels])
    data = load(blobs(test_ids=np.array(tests)), None, None, 0, labels=file)
    np.testing.assert_array_equal(data.train.labels, labels)
    np.testing.assert_array_equal(data.test.labels, np.arange(60) % 3)
    assert data.found.counts == {"labels of x.npz of no training example": 60}


def test_what_follows_is_of_the_files_labels(tmp_path):
    ids, labels = given_to(900, rate=0.3)
    labels[labels == 2] = np.where(np.arange(np.sum(labels == 2)) % 2, 2, 0)
    file = save(tmp_path / "x.npz", ids, labels)
    given = lambda data: labels[[int(id[1:]) for id in data.train.ids]]
    whole = load(blobs(900), None, None, 0, labels=file)
    part = load(blobs(900), None, None, 0, labels=file, train_size=300)
    shares = np.bincount(labels) / 3
    assert np.all(np.abs(np.bincount(part.train.labels) - shares) < 1)
    rare = load(blobs(900), None, Step((1,), 10.0), 0, labels=file)
    counts = np.bincount(rare.train.labels)
    assert counts[1] == round(max(counts[0], counts[2]) / 10)
    meta = load(blobs(900), None, None, 0, labels=file, meta_size=90)
    np.testing.assert_array_equal(np.bincount(meta.meta.labels), [30, 30, 30])
    true = [int(id[1:]) % 3 for id in meta.meta.ids]
    np.testing.assert_array_equal(meta.meta.labels, true)
    held = load(blobs(900), None, None, 0, labels=file, validation_fraction=0.2)
    np.testing.assert_array_equal(held.test.labels, labels[[int(id[1:]) for id in held.test.ids]])
    for data in (whole, part, rare, meta, held):
        np.testing.assert_array_equal(data.train.labels, given(data))
        np.testing.assert_array_equal(data.clean_labels, [int(id[1:]) % 3 for id in data.train.ids])
        assert data.train.true_labels is None
        summary = data.summary()
        assert summary["mislabelled"] == pytest.approx(np.mean(data.flipped), abs=1e-4)
        assert sum(summary["mislabelled_count"]) == np.sum(data.flipped)
        assert "with labels of x.npz" in summary["splits"]["train"]


def test_noise_is_not_made_on_top(tmp_path):
    config = har_config.base()
    config.data.labels = "mine.csv"
    config.data.noise.kind, config.data.noise.rate = "symmetric", 0.2
    with pytest.raises(
        har_config.ConfigError, match=r"labels='mine\.csv' has .*kind='symmetric'"
    ) as e:
        har_config.validate(config)
    flags = str(e.value).split(" the second by ")[1].split()
    for flag in flags:  # what is said to do is enough
        key, value = flag.removeprefix("--config.").split("=")
        config.update_from_flattened_dict({key: None if value == "None" else value})
    har_config.validate(config)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("sized", [True, False])
def test_records_of_tfds_in_another_order(tmp_path, sized, numbers):
    images, labels = tiny_tfds.random_images(30, (9, 9, 3), 3)
    order = np.random.default_rng(1).permutation(30).tolist()
    ids = order if numbers else [f"{row:05}" for row in order]
    options = dict(sized=sized, ids=ids, splits=("train",) if numbers else ("train", "test"))
    tiny_tfds.write(tmp_path / "tiny" / "1.0.0", images, labels, NAMES, **options)
    rng = np.random.default_rng(2)
    mine = np.where(rng.random(30) < 0.2, 0, labels)
    named = np.arange(30)
    if not numbers:
        named = [f"train_{row:05}" for row in range(30)]
    by_id = np.empty(30, int)
    by_id[order] = mine  # in the order of the ids, as people publish them
    file = save(tmp_path / "x.npz", named, by_id)
    data = load(tfds("tiny", data_dir=tmp_path), None, None, 0, labels=file, on_leak="keep")
    row_of = {str(id) if numbers else f"train_{id}": row for row, id in enumerate(ids)}
    rows = [row_of[id] for id in data.train.ids]
    assert len(rows) == (24 if numbers else 30)
    np.testing.assert_array_equal(data.train.labels, mine[rows])
    np.testing.assert_array_equal(data.clean_labels, labels[rows])


def test_a_set_of_tfds_without_ids(tmp_path):
    images, labels = tiny_tfds.random_images(6, (5, 4, 3), 3)
    tiny_tfds.write(tmp_path / "tiny" / "1.0.0", images, labels, NAMES)
    file = save(tmp_path / "x.npz", range(6), labels)
    with pytest.raises(DataError, match=r"the training examples of tfds:tiny have none: a set of"):
        load(tfds("tiny", data_dir=tmp_path), None, None, 0, labels=file, on_leak="keep")


def test_a_folder_of_images_by_their_paths(tmp_path):
    write_folder(tmp_path / "images", {"ant": 20, "bee": 10})
    paths = sorted(str(p.relative_to(tmp_path / "images")) for p in tmp_path.glob("images/*/*"))
    rows = [f"{p};{'bee' if i % 4 == 0 else p[:3]}" for i, p in enumerate(paths)]
    (tmp_path / "x.csv").write_text("\n".join(["id;label", *rows[::-1]]))
    file = read_label_file(str(tmp_path / "x.csv"))
    data = load(folder(root=tmp_path / "images"), None, None, 0, labels=file)
    mine = dict(row.split(";") for row in rows)
    names = [data.class_names[label] for label in data.train.labels]
    assert names == [mine[path] for path in data.train.inputs.names]
    true = [data.class_names[label] for label in data.clean_labels]
    assert true == [path[:3] for path in data.train.inputs.names]
    assert data.found.counts == {"labels of x.csv of no training example": 6}
    tested = [data.class_names[label] for label in data.test.labels]
    assert tested == [path[:3] for path in data.test.inputs.names]


def test_a_table_of_texts_by_its_column_id(tmp_path):
    words = {"food": "bread and salt", "sport": "ball and goal"}
    labels = ["food", "sport"] * 20
    rows = [f"{words[name]} {row},{name},t{row}" for row, name in enumerate(labels)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label,id", *rows]))
    mine = {f"t{row}": "food" if row % 5 == 0 else name for row, name in enumerate(labels)}
    lines = [f"{id},{name}" for id, name in mine.items()]
    (tmp_path / "x.csv").write_text("\n".join(["id,label", *lines[::-1]]))
    file = read_label_file(str(tmp_path / "x.csv"))
    data = load(table(table=tmp_path / "texts.csv"), None, None, 0, labels=file, reads="texts")
    names = [data.class_names[label] for label in data.train.labels]
    assert names == [mine[id] for id in data.train.ids]
    assert [int(text.split()[-1]) for text in data.train.texts] == [
        int(id[1:]) for id in data.train.ids
    ]
    (tmp_path / "texts.csv").write_text(
        "\n".join(["text,label", *(row.rpartition(",")[0] for row in rows)])
    )
    with pytest.raises(DataError, match="a table of texts needs a column id"):
        load(table(table=tmp_path / "texts.csv"), None, None, 0, labels=file)


def tiny(**options):
    config = har_config.base()
    config.methods, config.devices = ("erm",), 1
    config.model.widths, config.batch_size = (4,), 512
    config.train.epochs = 1.0
    for key, value in options.items():
        config.data[key] = value
    har_config.validate(config)
    return config


def test_labels_alone_are_in_the_order_of_a_runs_ids(tmp_path):
    data = Trainer(tiny(), tmp_path).data
    Trainer(tiny(), tmp_path).describe_data(tmp_path)
    ids = (tmp_path / "ids.txt").read_text().split("\n")[:-1]
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), data.train.labels)
    rng = np.random.default_rng(0)
    mended = np.where(rng.random(len(ids)) < 0.1, 3, data.train.labels)
    np.save(tmp_path / "mended.npy", mended)
    config = tiny(labels=str(tmp_path / "mended.npy"))
    by_id = dict(zip(ids, mended.tolist(), strict=True))
    again = Trainer(config, tmp_path).data
    np.testing.assert_array_equal(again.train.labels, [by_id[id] for id in again.train.ids])
    (tmp_path / "ids.txt").write_text("\n".join(ids))  # as an editor may leave it
    np.testing.assert_array_equal(Trainer(config, tmp_path).data.train.labels, again.train.labels)
    np.save(tmp_path / "mended.npy", mended[:-1])
    with pytest.raises(DataError, match=r"is of shape \[1196\], and .*ids\.txt has 1197 ids: a"):
        _ = Trainer(config, tmp_path).data
    np.save(tmp_path / "mended.npy", rng.permutation(mended))
    with pytest.raises(DataError, match=r"are not in the order of the ids\.txt beside it"):
        _ = Trainer(config, tmp_path).data
    np.save(tmp_path / "mended.npy", mended)
    config.seed = 1  # which is tested on others
    with pytest.raises(DataError, match=r"of the 1197 training examples of digits have no label"):
        _ = Trainer(config, tmp_path).data


def labels_of_digits(path, further=0):
    """Writes labels of all digits, a tenth of which are wrong, and one more."""
    own = np.array(load_digits().target)
    mine = np.where(np.arange(len(own)) % 10 == 0, (own + 1) % 10, own)
    mine[further] = (mine[further] + 1) % 10
    np.savez(path, id=np.arange(len(own)), label=mine)
    return str(path)


def test_other_labels_under_the_same_name_are_another_config(tmp_path):
    config = tiny(labels=labels_of_digits(tmp_path / "mine.npz"))
    (folder_of,) = Artefacts(config, tmp_path / "run").train.values()
    folder_of.begin("digest")
    shutil.move(tmp_path / "mine.npz", tmp_path / "moved.npz")
    config = tiny(labels=str(tmp_path / "moved.npz"))
    refuse_differences(list(Artefacts(config, tmp_path / "run").train.values()))
    labels_of_digits(tmp_path / "moved.npz", further=5)
    with pytest.raises(WorkdirError, match=r"another config \(data\.labels \(SHA-256\) was '"):
        refuse_differences(list(Artefacts(config, tmp_path / "run").train.values()))
    with pytest.raises(WorkdirError, match=r"data\.labels \(SHA-256\) was '\w+', now None"):
        refuse_differences(list(Artefacts(tiny(), tmp_path / "run").train.values()))


def test_labels_that_only_the_file_says_are_wrong_are_in_the_digest(tmp_path):
    ids, labels = given_to()
    file = save(tmp_path / "x.npz", ids, labels)
    source, others = blobs(), blobs()
    data = load(source, None, None, 0, labels=file)
    own = dataclasses.replace(data, clean_labels=data.train.labels)
    assert data.digest != own.digest
    assert load(others, None, None, 0, labels=file).digest == data.digest


@pytest.mark.slow
def test_a_run_tells_of_the_labels_and_refuses_others_under_their_name(tmp_path, capsys):
    path = tmp_path / "mine.npz"
    config = tiny(labels=labels_of_digits(path))
    Experiment(config, tmp_path / "run").run()
    results = json.loads((tmp_path / "run/report/results.json").read_text())
    said, of_data = capsys.readouterr().out, results["data"]
    wrong = sum(of_data["mislabelled_count"])
    assert of_data["labels_from"] == str(path)
    assert of_data["mislabelled"] == pytest.approx(wrong / 1197, abs=1e-4)
    assert 0.07 < of_data["mislabelled"] < 0.13
    assert sum(group["mislabelled"] for group in results["groups"]) == wrong
    told = f"labels are of {path}: {100 * of_data['mislabelled']:.1f}% are not the source's own"
    assert told in said
    assert told in html.unescape((tmp_path / "run/report/index.html").read_text())
    assert f"data: labels of {path}: " in said
    assert (tmp_path / "run/train/erm/ids.txt").read_text().count("\n") == 1197

    Experiment(config, tmp_path / "run").run()
    assert "complete, skipped" in capsys.readouterr().out
    labels_of_digits(path, further=5)
    with pytest.raises(WorkdirError, match=r"another config \(data\.labels"):
        Experiment(config, tmp_path / "run").run()


def snippet(number):
    text = (ROOT / "docs" / "labels.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)[number]


def convert(human, monkeypatch, folder):
    monkeypatch.chdir(folder)
    exec(snippet(1), {"human": human})


def test_the_snippet_of_the_docs_makes_files_of_ids_and_labels(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    keys = ["aggre_label", "worse_label", *(f"random_label{number}" for number in (1, 2, 3))]
    human = {key: rng.integers(0, 10, 50_000) for key in keys}
    convert(human, monkeypatch, tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    names = ["aggregate", "random1", "random2", "random3", "worst"]
    assert made == [f"cifar10n_{name}.npz" for name in names]
    for name, key in zip(names, [keys[0], *keys[2:], keys[1]], strict=True):
        assert zipfile.is_zipfile(f"cifar10n_{name}.npz")
        file = read_label_file(f"cifar10n_{name}.npz")
        assert list(file.ids[:2]) == ["train_00000", "train_00001"]
        np.testing.assert_array_equal(file.labels, human[key])


@pytest.mark.slow
def test_cifar_with_labels_that_people_gave(tmp_path, monkeypatch):
    if not (SHARED / "human").exists() or not (SHARED / "tfds" / "cifar10").exists():
        pytest.skip(f"{SHARED} has no labels of CIFAR-10, or not its images")
    with np.load(SHARED / "human" / "cifar10n.npz") as file:
        human = {"aggre_label": file["aggregate"], "random_label1": file["random1"]}
    others = ("worse_label", "random_label2", "random_label3")
    convert({**dict.fromkeys(others, human["aggre_label"]), **human}, monkeypatch, tmp_path)
    source = tfds("cifar10", data_dir=SHARED / "tfds")
    loaded = source.load(0)
    source = dataclasses.replace(source, load=lambda seed: loaded)
    assert loaded.train.ids[:3].tolist() == ["train_25346", "train_07274", "train_30039"]
    for name, rate, cats in (("aggregate", 0.0901, 0.1748), ("random1", 0.1723, 0.257)):
        config = recipes.annotated(10, f"cifar10n_{name}.npz")
        recipes.shrink(config)
        har_config.validate(config)
        of_file = dict(labels=read_label_file(config.data.labels), on_leak=config.data.on_leak)
        summary = load(source, None, None, 0, **of_file).summary()
        assert summary["mislabelled"] == pytest.approx(rate, abs=1e-4)
        assert summary["flip_rate"][3] == cats
        small = load(source, None, None, 0, **of_file, train_size=5000)
        assert len(small.train) == 5000
        assert np.mean(small.flipped) == pytest.approx(rate, abs=0.02)
