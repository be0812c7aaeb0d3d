"""What a report suggests is what a run that is given it trains on, or it is refused in one line."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest

from har_jax import config as har_config
from har_jax.data import load
from har_jax.data.corrections import names_of, read_corrections
from har_jax.data.corruption import Groups, Step
from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.label_files import read_label_file
from har_jax.data.sources import Source, folder, table
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.artefacts import Artefacts
from har_jax.experiment.workdir import WorkdirError, refuse_differences
from har_jax.report.relabel import suggestions
from tests.own_images import write_folder
from tests.reports import said_of
from tests.test_label_files import NAMES, blobs, given_to, save

NOISE = Groups(groups=(("ant", "bee"),), rate=0.3)


def nameless(size=60, content=0):
    """The blobs without ids; of another content or order of the examples."""
    of = blobs(size).load(0)
    order = np.random.default_rng(content).permutation(size) if content else np.arange(size)
    parts = (dataclasses.replace(part.take(order), ids=None) for part in (of.train, of.test))
    dataset = Dataset(*parts, NAMES)
    return Source("images", NAMES, lambda seed: dataset, "blobs")


def images(tmp_path):
    if not (tmp_path / "images").exists():
        write_folder(tmp_path / "images", {"ant": 20, "bee": 20, "cow": 10})
    return folder(root=tmp_path / "images")


def texts(tmp_path):
    rows = [f'"the {name}, number {row}",{name}' for row, name in enumerate(NAMES * 20)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    return table(table=tmp_path / "texts.csv")


SOURCES = {
    "ids": lambda path: blobs(),
    "no ids": lambda path: nameless(),
    "files": images,
    "texts": texts,
}


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_rows(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def suggested(path, data, seed=0):
    """Writes what a model suggests that mostly knows the truth; gives what it says."""
    said = said_of(data, data.clean_labels, seed=seed)
    path.write_text(suggestions(said, data), encoding="utf-8")
    return said


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("noise", [None, NOISE], ids=["as it is", "noise"])
def test_all_suggestions_make_what_was_predicted(tmp_path, kind, noise, seed):
    source, imbalance = SOURCES[kind](tmp_path), None if noise is None else Step(("cow",), 2.0)
    loaded = lambda **options: load(SOURCES[kind](tmp_path), noise, imbalance, seed, **options)
    data = loaded(validation_fraction=0.2)
    said = suggested(tmp_path / "relabel.csv", data, seed)
    again = loaded(
        validation_fraction=0.2, corrections=read_corrections(str(tmp_path / "relabel.csv"))
    )
    prediction, _ = said.of_all(len(data.train))
    assert source.name == SOURCES[kind](tmp_path).name
    np.testing.assert_array_equal(again.train.labels, prediction)
    np.testing.assert_array_equal(again.test.labels, data.test.labels)
    np.testing.assert_array_equal(
        again.corrected.rows, np.flatnonzero(prediction != data.train.labels)
    )
    np.testing.assert_array_equal(
        again.clean_labels, data.clean_labels if noise else again.train.labels
    )
    assert again.digest != data.digest
    told = again.summary()
    assert told["corrected"] == len(again.corrected.rows) > 0
    right = np.sum(prediction[again.corrected.rows] == data.clean_labels[again.corrected.rows])
    assert told["corrected_right"] == (right if noise else None)


def test_the_table_holds_what_is_contradicted_the_most_suspicious_first(tmp_path):
    data = load(blobs(), NOISE, None, 0)
    said = suggested(tmp_path / "relabel.csv", data)
    rows = rows_of(tmp_path / "relabel.csv")
    row_of = {id: row for row, id in enumerate(data.train.ids)}
    at = np.argsort(said.index)
    losses = []
    for row in rows:
        example = row_of[row["id"]]
        place = at[example]
        assert row["given_label"] == NAMES[data.train.labels[example]] != row["suggestion"]
        assert row["suggestion"] == NAMES[said.prediction[place]]
        assert float(row["probability"]) == pytest.approx(said.confidence[place], abs=1e-4)
        assert float(row["held_out_loss"]) == pytest.approx(said.loss[place], abs=1e-4)
        losses.append(said.loss[place])
    assert len(rows) == np.sum(said.prediction != data.train.labels[said.index]) > 5
    assert np.all(np.diff(losses) <= 0)


def test_what_could_not_be_read_and_what_nothing_is_said_of_is_not_suggested(tmp_path):
    data = load(blobs(), NOISE, None, 0)
    said = suggested(tmp_path / "all.csv", data)
    part = np.arange(20)
    prediction = said.prediction[part].copy()
    prediction[:5] = -1
    loss = said.loss[part].copy()
    loss[:5] = np.nan
    half = OutOfSample(said.index[part], said.fold[part], prediction, loss)  # and no confidence
    (tmp_path / "relabel.csv").write_text(suggestions(half, data))
    told = {row["id"] for row in rows_of(tmp_path / "relabel.csv")}
    readable = set(data.train.ids[said.index[part[5:]]].tolist())
    assert told == readable & {row["id"] for row in rows_of(tmp_path / "all.csv")}
    assert {row["probability"] for row in rows_of(tmp_path / "relabel.csv")} == {""}


def test_a_person_deletes_lines_and_changes_suggestions(tmp_path):
    data = load(blobs(), None, None, 0)
    suggested(tmp_path / "relabel.csv", data)
    first, second, *_ = rows_of(tmp_path / "relabel.csv")
    (other,) = set(NAMES) - {first["given_label"], first["suggestion"]}
    kept = [first | {"suggestion": other}, second | {"suggestion": second["given_label"]}]
    path = tmp_path / "edited.csv"
    lines = [";".join(kept[0]), *(";".join(row.values()) for row in kept)]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())  # as spreadsheets save it
    again = load(blobs(), None, None, 0, corrections=read_corrections(str(path)))
    (row,) = again.corrected.rows
    assert data.train.ids[row] == first["id"]
    assert NAMES[again.train.labels[row]] == other
    assert np.sum(again.train.labels != data.train.labels) == 1


def test_labels_of_a_file_are_corrected_and_the_sources_own_stay_known_as_true(tmp_path):
    labels = save(tmp_path / "given.npz", *given_to())
    data = load(blobs(), None, None, 0, labels=labels)
    said = suggested(tmp_path / "relabel.csv", data)
    corrections = read_corrections(str(tmp_path / "relabel.csv"))
    again = load(blobs(), None, None, 0, labels=labels, corrections=corrections)
    np.testing.assert_array_equal(again.train.labels, said.of_all(60)[0])
    np.testing.assert_array_equal(again.clean_labels, np.arange(60) % 3)


def test_corrections_of_what_is_not_trained_on_are_counted(tmp_path):
    suggested(tmp_path / "relabel.csv", load(blobs(600), None, None, 0))
    corrections = read_corrections(str(tmp_path / "relabel.csv"))
    data = load(blobs(600), None, None, 0, train_size=300, corrections=corrections)
    told = "corrections of relabel.csv of examples that are not trained on"
    rows = rows_of(tmp_path / "relabel.csv")
    elsewhere = {row["id"] for row in rows} - set(data.train.ids.tolist())
    assert data.found.counts == {told: len(elsewhere)}
    assert len(data.corrected.rows) == len(rows) - len(elsewhere)


REFUSED = {
    "twice": (lambda rows: [*rows, rows[0]], r"has the id '\w+', as line 2 has: leave one"),
    "unknown": (
        lambda rows: [rows[0] | {"id": "y"}],
        r"line 2 of .* has the id 'y', which no example has, where they are such as 'x0'",
    ),
    "no id": (lambda rows: [rows[0] | {"id": ""}], r"line 2 of .* has no id"),
    "other label": (
        lambda rows: [rows[0] | {"given_label": rows[0]["suggestion"]}],
        r"line 2 of .* says that the label of 'x\d+' is '\w+', and it is '\w+': the file was made",
    ),
    "no suggestion": (
        lambda rows: [rows[0], rows[1] | {"suggestion": " "}],
        r"line 3 of .* suggests no class: write one, or delete the line",
    ),
    "unknown suggestion": (
        lambda rows: [rows[0] | {"suggestion": "bea"}],
        r"line 2 of .* names class 'bea', which is none .*: did you mean 'bee'\?",
    ),
    "unknown label": (
        lambda rows: [rows[0] | {"given_label": "owl"}],
        r"line 2 of .* names class 'owl', which is none of the 3 classes of blobs",
    ),
    "columns": (
        lambda rows: [{"id": "x0", "label": "ant"}],
        r"has the columns id, label: its first line has to name one id, one given_label, one sugg",
    ),
    "not for names": (
        lambda rows: [rows[0] | {"id": "0", "digest": "0123456789ab"}],
        r"line 2 .* is of an example whose digest is '0123456789ab', and that of training example",
    ),
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, change):
    edit, message = REFUSED[change]
    suggested(tmp_path / "relabel.csv", load(blobs(), None, None, 0))
    path = write_rows(tmp_path / "edited.csv", edit(rows_of(tmp_path / "relabel.csv")))
    with pytest.raises(DataError, match=message) as raised:
        load(blobs(), None, None, 0, corrections=read_corrections(str(path)))
    assert "\n" not in str(raised.value)
    assert "edited.csv" in str(raised.value)


def test_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"config\.data\.relabel='gone\.csv' is no file"):
        read_corrections("gone.csv")
    (tmp_path / "x.csv").write_text("id,given_label,suggestion\n")
    with pytest.raises(
        DataError, match=r"has no lines below its first: keep .* or leave data\.relabel out"
    ):
        read_corrections(str(tmp_path / "x.csv"))
    (tmp_path / "x.csv").write_bytes(b"id,given_label,suggestion\n\xff,1,2\n")
    with pytest.raises(DataError, match=r"cannot be read: .* save it as CSV in UTF-8"):
        read_corrections(str(tmp_path / "x.csv"))


def test_labels_that_are_wrong_alone_are_told_before_data_are_loaded(tmp_path):
    def never(seed):
        raise AssertionError("loaded")

    path = write_rows(tmp_path / "x.csv", [{"id": "x0", "given_label": "ant", "suggestion": "fly"}])
    source = Source("images", NAMES, never, "blobs")
    with pytest.raises(DataError, match="names class 'fly'"):
        load(source, None, None, 0, corrections=read_corrections(str(path)))


def test_noise_of_another_seed_is_refused(tmp_path):
    data = load(blobs(600), NOISE, None, 0)
    suggested(tmp_path / "relabel.csv", data)
    corrections = read_corrections(str(tmp_path / "relabel.csv"))
    with pytest.raises(DataError, match=r"another seed's noise or labels that are corrected alr"):
        load(blobs(600), NOISE, None, 1, corrections=corrections)


def test_places_in_another_order_or_set_are_refused(tmp_path):
    suggested(tmp_path / "relabel.csv", load(nameless(600), None, None, 0))
    corrections = read_corrections(str(tmp_path / "relabel.csv"))
    load(nameless(600), None, None, 0, corrections=corrections)
    with pytest.raises(DataError, match=r"the file was made for other data, another seed or ano"):
        load(nameless(600, content=1), None, None, 0, corrections=corrections)
    with pytest.raises(DataError, match=r"places in the order of the 60 training examples"):
        load(nameless(), None, None, 0, corrections=corrections)


def test_ids_that_are_not_ones_own_or_no_table_holds_are_places():
    of = lambda ids: names_of(Examples(np.zeros((2, 1)), np.zeros(2, np.int32), ids=np.array(ids)))
    assert of(["a", "b"]) == ["a", "b"]
    for ids in (["a", "a"], ["a", ""], ["a", " b"], ["a", "b\nc"], ["a", "\udc80"]):
        assert of(ids) is None, ids


def tiny(**options):
    config = har_config.base()
    config.methods, config.devices = ("har",), 1
    config.model.widths, config.batch_size = (4,), 512
    config.data.noise.kind, config.data.noise.rate = "symmetric", 0.2
    config.train.epochs = config.pretrain.epochs = 1.0
    for key, value in options.items():
        config.data[key] = value
    har_config.validate(config)
    return config


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(nearly always taken for one other|is predicted wrongly)")
def test_a_run_writes_suggestions_and_another_trains_on_them(tmp_path, capsys):
    Experiment(tiny(), tmp_path / "first").run()
    assert "suggested corrections of labels, to edit: " in capsys.readouterr().out
    report = tmp_path / "first" / "report"
    found = json.loads((report / "results.json").read_text())["suspicion"]
    rows = rows_of(report / "relabel.csv")
    assert len(rows) == found["contradicted"]
    assert found["examples"] in (598, 599)  # a half
    assert set(found["precision"]) == {"10", "50", "100"}
    page = (report / "index.html").read_text()
    assert f"{len(rows)} of {found['examples']} labels are contradicted" in page
    assert "relabel.csv" in page
    path = write_rows(tmp_path / "mine.csv", rows[:30])
    Experiment(tiny(relabel=str(path)), tmp_path / "second").run()
    out = capsys.readouterr().out
    told = json.loads((tmp_path / "second" / "report" / "results.json").read_text())["data"]
    assert told["corrected"] == 30
    said = f"30 labels are as {path} has them, in place of those that were given"
    assert f"{said}, {told['corrected_right']} of which are right now" in out
    assert said in (tmp_path / "second" / "report" / "index.html").read_text()
    labels = [np.load(tmp_path / run / "train/har/labels.npy") for run in ("first", "second")]
    assert np.sum(labels[0] != labels[1]) == 30


def test_another_content_under_the_same_name_is_another_config(tmp_path):
    row = {"id": "3", "given_label": "0", "suggestion": "1"}
    path = write_rows(tmp_path / "mine.csv", [row])
    folders = lambda config: list(Artefacts(config, tmp_path / "run").train.values())
    folders(tiny(relabel=str(path)))[0].begin("digest")
    shutil.move(path, tmp_path / "moved.csv")
    refuse_differences(folders(tiny(relabel=str(tmp_path / "moved.csv"))))
    write_rows(path, [row | {"suggestion": "2"}])
    with pytest.raises(WorkdirError, match=r"another config \(data\.relabel \(SHA-256\) was '"):
        refuse_differences(folders(tiny(relabel=str(path))))
    with pytest.raises(WorkdirError, match=r"data\.relabel \(SHA-256\) was '\w+', now None"):
        refuse_differences(folders(tiny()))


def test_where_nothing_was_estimated_nothing_is_suggested_and_the_page_says_so(tmp_path):
    config = tiny()
    config.methods = ("erm",)
    har_config.validate(config)
    Experiment(config, tmp_path).run()
    assert not (tmp_path / "report" / "relabel.csv").exists()
    assert json.loads((tmp_path / "report" / "results.json").read_text())["suspicion"] is None
    assert (
        "no model has said anything of examples that it did not see"
        in (tmp_path / "report" / "index.html").read_text()
    )


def test_labels_files_and_corrections_are_told_apart(tmp_path):
    path = write_rows(tmp_path / "x.csv", [{"id": "x0", "given_label": "ant", "suggestion": "bee"}])
    with pytest.raises(
        DataError, match=r"config\.data\.labels=.* has to name one id and one label"
    ):
        read_label_file(str(path))
