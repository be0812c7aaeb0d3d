"""Tables are made from the paper's numbers and runs that are skipped once they are complete."""

import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from har_jax.config import base, recipes, validate
from har_jax.experiment import runs, stages
from har_jax.experiment.workdir import StageError, WorkdirError
from har_jax.methods import METHODS
from har_jax.reproduce import grid, render
from har_jax.reproduce.__main__ import SCALES
from har_jax.reproduce.grid import Grid, Scale
from har_jax.reproduce.tables import (
    TABLES,
    UNIFORM,
    Column,
    Paper,
    Row,
    Table,
    paper,
)
from har_jax.system.files import write_json

pytestmark = pytest.mark.filterwarnings("ignore:of what was held out")

ROOT = pathlib.Path(__file__).parent.parent


def tiny_digits():
    config = base()
    config.devices = 1
    config.data.train_size = 100
    config.data.noise.kind = "groups"
    config.data.noise.groups = ((3, 8),)
    config.data.noise.rate = 0.4
    config.model.widths = (4,)
    config.pretrain.epochs = config.train.epochs = 1.0
    return config


PAPER = Paper(
    title="A table",
    metric="top-1 error %",
    columns=("digits: noisy", "digits: train", "more digits"),
    rows={
        "ERM": ((50.0, 1.0), (40.0,), None),
        "GCE": ((30.0, 1.0), (20.0,), None),
        "Unif (optimal)": ((45.0, 1.0), (35.0,), None),
        "HAR": ((40.0, 1.0), (30.0,), None),
    },
)
TABLE = Table(
    settings={"digits": tiny_digits, "more": tiny_digits},
    columns=(Column("digits", "noisy"), Column("digits", "all", "train"), Column("more")),
    rows={
        "ERM": Row("erm"),
        "Unif (optimal)": Row("uniform", tunes=UNIFORM),
        "HAR": Row("har"),
    },
    is_error=True,
)
ABOUT = {
    "title": "A table",
    "metric": "top-1 error %",
    "is_error": True,
    "scale": "small",
    "seeds": [3, 4],
    "command": "python -m har_jax.reproduce --table=x",
    "machine": {"jax": "0"},
}
SCALE = Scale(shrink=lambda config: None, strengths={UNIFORM: (0.0, 0.1)})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("table")
    whole = Grid(TABLE, SCALE, ["digits"], [3, 4], workdir)
    whole.check()
    return workdir, whole, whole.make(PAPER, jobs=1)


@pytest.mark.slow
def test_cells_are_what_the_runs_reported(made):
    workdir, _, results = made
    assert results["columns"] == ["digits: noisy", "digits: train"]
    assert list(results["rows"]) == list(PAPER.rows)
    reports = [
        json.loads((workdir / f"digits/seed-{seed}/default/report/results.json").read_text())
        for seed in (3, 4)
    ]
    for name, method in (("ERM", "erm"), ("HAR", "har")):
        cell = results["rows"][name]["cells"][0]
        values = [100 - 100 * r["means"][method]["noisy"]["test_accuracy"] for r in reports]
        assert cell["here"]["values"] == pytest.approx(values)
        assert cell["here"]["mean"] == pytest.approx(np.mean(values))
        assert cell["here"]["std"] == pytest.approx(np.std(values, ddof=1))
    assert results["rows"]["ERM"]["cells"][1]["paper"] == {"mean": 40.0, "std": None}
    assert results["rows"]["GCE"]["cells"][0]["here"] is None


@pytest.mark.slow
def test_the_uniform_strength_is_chosen_on_held_out_training_data(made):
    workdir, _, results = made
    (tuning,) = results["tuning"]
    assert (tuning["setting"], tuning["key"], tuning["seed"]) == ("digits", UNIFORM, 3)
    assert tuning["chosen"] == max(tuning["accuracies"], key=lambda pair: pair[1])[0]
    trial = json.loads(
        (workdir / "digits/tuning-seed-3/uniform_strength=0.1/report/results.json").read_text()
    )
    assert trial["config"]["data.evaluate_on"] == "validation"
    assert trial["data"]["train_examples"] + trial["data"]["test_examples"] == 100
    chosen = f"uniform_strength={tuning['chosen']:g}"
    assert (workdir / "digits/seed-4" / chosen / "report").exists()


@pytest.mark.slow
def test_what_is_complete_is_skipped(made, capsys):
    _, whole, results = made
    assert whole.make(PAPER, jobs=1) == results
    assert "step" not in capsys.readouterr().out


@pytest.mark.slow
def test_jobs_at_once_give_the_same_numbers(made, tmp_path):
    _, _, results = made
    again = Grid(TABLE, SCALE, ["digits"], [3, 4], tmp_path).make(PAPER, jobs=2)
    assert again == results
    assert "har: step" in (tmp_path / "digits/seed-3/default/log.txt").read_text()


def test_a_run_that_diverges_leaves_its_cells_empty(tmp_path):
    def diverging():
        config = tiny_digits()
        config.optimizer.learning_rate = 1e38
        return config

    table = Table({"digits": diverging}, TABLE.columns[:2], {"ERM": Row("erm")})
    results = Grid(table, SCALE, ["digits"], [0], tmp_path).make(PAPER, jobs=1)
    assert results["rows"]["ERM"]["cells"][0]["here"] == {
        "values": [None],
        "mean": None,
        "std": None,
    }


@pytest.mark.slow
def test_rendering(made):
    results = {**ABOUT, **made[2]}
    text = render.markdown(results)
    assert "| GCE | not implemented yet (30.0 ± 1.0) | not implemented yet (20.0) |" in text
    cell = results["rows"]["ERM"]["cells"][0]["here"]
    assert f"| ERM | {cell['mean']:.1f} ± {cell['std']:.1f} (50.0 ± 1.0) |" in text
    assert "is a reduction" in text
    assert "chosen by the mean accuracy" in text
    differences = [
        f"{har - erm:+.1f}"
        for erm, har in zip(
            cell["values"], results["rows"]["HAR"]["cells"][0]["here"]["values"], strict=True
        )
    ]
    assert f"| HAR | {' '.join(differences)} |" in text
    assert "not implemented yet" in render.terminal(results)
    assert render.plot(results).startswith("<svg")


def test_a_column_can_be_of_a_shot():
    share = {"test_accuracy": 0.25, "train_accuracy": 0.5}
    results = {
        "means": {"erm": {"all": share}},
        "class_means": {"erm": {"many": 0.75, "medium": None}},
        "groups": [{"name": "cat", "methods": {"erm": share}}],
    }
    parts = [("all", "test"), ("all", "train"), ("cat", "train"), ("many", "test")]
    found = [grid._percent(results, "erm", Column("x", *part)) for part in parts]
    assert found == [25, 50, 50, 75]
    assert grid._percent(results, "erm", Column("x", "medium")) is None
    with pytest.raises(ValueError, match="part='few' has split='test' only, not 'train'"):
        Column("x", "few", "train")


@pytest.fixture
def never_run(monkeypatch):
    """Runs are noted in place of being made; all accuracies are 0.25."""
    noted = []

    def execute(runs, jobs):
        noted.extend(runs)
        share = {"test_accuracy": 0.25, "train_accuracy": 0.25}
        parts = {"noisy": share, "all": share}
        return [{"means": dict.fromkeys(run.config.methods, parts)} for run in runs]

    monkeypatch.setattr(grid, "execute", execute)
    return noted


def test_what_is_impossible_is_not_run_and_says_why(never_run, tmp_path):
    rows = {
        "ERM": Row("erm"),
        "GCE": Row("gce", (("method.gce.q", 0.5),), impossible={"more": "it has none"}),
        "Unif (optimal)": Row("uniform", tunes=UNIFORM, impossible={"digits": "it is off"}),
        "HAR": Row("har"),
    }
    table = Table(TABLE.settings, TABLE.columns, rows)
    both = Grid(table, SCALE, ["digits", "more"], [0], tmp_path)
    both.check()
    results = {**ABOUT, "seeds": [0], **both.make(PAPER, jobs=1)}
    assert [run.workdir.relative_to(tmp_path).as_posix() for run in never_run] == [
        "digits/seed-0/default",
        "digits/seed-0/q=0.5",
        "more/seed-0/default",
        "more/tuning-seed-0/uniform_strength=0",
        "more/tuning-seed-0/uniform_strength=0.1",
        "more/seed-0/uniform_strength=0",
    ]
    assert never_run[2].config.methods == ("erm", "har")
    cells = results["rows"]["GCE"]["cells"]
    assert [cell["impossible"] for cell in cells] == [None, None, "it has none"]
    assert [cell["here"] is None for cell in cells] == [False, False, True]
    notes = ["[1] it has none.", "[2] it is off."]
    text = render.markdown(results)
    for line in (
        "| GCE | 25.0 (30.0 ± 1.0) | 25.0 (20.0) | - [1] |",
        "| Unif (optimal) | - [2] (45.0 ± 1.0) | - [2] (35.0) | 25.0 |",
        "| GCE | +0.0 | +0.0 | - |",
        "| Unif (optimal) | - | - | +0.0 |",
        *notes,
    ):
        assert line in text.splitlines()
    assert "GCE, more digits" not in text
    assert render.terminal(results).splitlines()[-2:] == notes
    assert render.plot(results).startswith("<svg")

    alone = Grid(table, SCALE, ["more"], [0], tmp_path).make(PAPER, jobs=1)
    assert "| GCE | - |" not in render.markdown({**results, **alone})


def test_rows_of_ours_come_below_the_papers(never_run, tmp_path):
    rows = {"HAR-DRW": Row("har", (("reweighting.start_epoch", 0.5),)), **TABLE.rows}
    few = Grid(dataclasses.replace(TABLE, rows=rows), SCALE, ["digits"], [0], tmp_path)
    results = {**ABOUT, "seeds": [0], **few.make(PAPER, jobs=1)}
    assert [(name, row["ours"]) for name, row in results["rows"].items()] == [
        *((name, False) for name in PAPER.rows),
        ("HAR-DRW", True),
    ]
    assert [cell["paper"] for cell in results["rows"]["HAR-DRW"]["cells"]] == [None, None]
    lines = render.markdown(results).splitlines()
    last = lines.index("| HAR | 75.0 (40.0 ± 1.0) | 75.0 (30.0) |")
    assert lines[last + 1 : last + 3] == [
        "| not in the paper: |  |  |",
        "| HAR-DRW | 75.0 | 75.0 |",
    ]
    assert "| HAR-DRW | +0.0 | +0.0 |" in lines
    assert "| HAR-DRW, digits: noisy | 75.0 |" in lines
    terminal = render.terminal(results).splitlines()
    assert [line.split("  ")[0] for line in terminal[-2:]] == ["not in the paper:", "HAR-DRW"]
    drawn = render.plot(results)
    assert drawn.count("<!-- not in the paper: -->") == 2
    without = {name: row for name, row in results["rows"].items() if not row["ours"]}
    assert "not in the paper" not in render.plot({**results, "rows": without})
    assert "not in the paper" not in render.markdown({**results, "rows": without})
    assert drawn.count("<!-- HAR-DRW -->") == 2


def unlearned(name):
    """A method whose strengths cannot be made, which ends its stage, and no other."""
    error = StageError(f"{name}: it has learned nothing")
    error.method = name
    return error


@pytest.fixture
def experiments(monkeypatch):
    """In place of experiments: which methods were trained where, and what ends some of them."""
    made, ends = [], {}

    class Experiment:
        def __init__(self, config, workdir):
            self.config, self.workdir = config, workdir

        def run(self, stage=None):
            seed, methods = self.config.seed, self.config.methods
            made.append((seed, methods))
            (self.workdir / "report").mkdir(parents=True, exist_ok=True)
            for method in methods:
                if error := ends.get((seed, method)):
                    raise error
            means = {method: {"all": {"test_accuracy": 0.25}} for method in methods}
            write_json(self.workdir / "report" / "results.json", {"means": means})

    monkeypatch.setattr(runs, "Experiment", Experiment)
    return made, ends


OF_ONE_RUN = Table(
    settings={"digits": tiny_digits},
    columns=(Column("digits"),),
    rows={"ERM": Row("erm"), "INCV": Row("incv"), "HAR": Row("har")},
)


def test_a_method_that_ends_leaves_its_own_cells_empty_with_the_reason(experiments, tmp_path):
    made, ends = experiments
    ends[4, "incv"] = unlearned("incv")
    whole = Grid(OF_ONE_RUN, SCALE, ["digits"], [3, 4], tmp_path)
    about = {**ABOUT, "is_error": False}
    results = {**about, **whole.make(PAPER, jobs=1)}
    everything, others = ("erm", "incv", "har"), ("erm", "har")
    assert made == [(3, everything), (4, everything), (4, others)]
    cells = {name: row["cells"][0] for name, row in results["rows"].items()}
    values = {name: cell["here"]["values"] for name, cell in cells.items() if cell["here"]}
    assert values == {"ERM": [25, 25], "HAR": [25, 25], "INCV": [25, None]}
    reason = "incv: it has learned nothing"
    assert cells["INCV"]["ended"] == [{"seed": 4, "reason": reason}]
    assert cells["HAR"]["ended"] == []
    note = f"[1] seed 4: {reason}."
    assert "| INCV | 25.0 [1] |" in render.markdown(results).splitlines()
    assert note in render.markdown(results).splitlines()
    assert render.terminal(results).splitlines()[-1] == note
    assert render.plot(results).startswith("<svg")
    json.dumps(results, allow_nan=False)
    # The reports stay those of the methods that were trained.
    assert {**about, **whole.make(PAPER, jobs=1)} == results
    assert made[3:] == [(3, everything), (4, others)]


@pytest.mark.parametrize(
    "error",
    [
        WorkdirError("made from another config"),
        OSError("disk full"),
        StageError("128 examples do not fall into equal parts for 3 devices"),  # no method's own
    ],
)
def test_other_errors_end_the_command(experiments, tmp_path, error):
    _, ends = experiments
    ends[3, "incv"] = error
    with pytest.raises(type(error), match=str(error)):
        Grid(OF_ONE_RUN, SCALE, ["digits"], [3], tmp_path).make(PAPER, jobs=1)


def test_a_selection_that_fails_leaves_the_other_methods_to_be_trained(
    monkeypatch, tmp_path, capsys
):
    def fails(trainer, path, name, chosen):
        raise StageError(f"{name}: no prediction agrees with its label")

    monkeypatch.setattr(stages, "select", fails)
    rows = {"INCV": Row("incv"), "ERM": Row("erm")}
    whole = Grid(dataclasses.replace(OF_ONE_RUN, rows=rows), SCALE, ["digits"], [0], tmp_path)
    results = whole.make(PAPER, jobs=1)
    cells = {name: row["cells"][0] for name, row in results["rows"].items()}
    assert cells["ERM"]["here"]["mean"] is not None
    reason = "incv: no prediction agrees with its label"
    assert cells["INCV"]["ended"] == [{"seed": 0, "reason": reason}]
    assert reason in capsys.readouterr().out
    assert whole.make(PAPER, jobs=1) == results
    assert "step" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-5, "1e-05"), (3, "3"), (True, "True"), ("own/nets:MLP", "own-nets-MLP"), ((8, 8), "8-8")],
)
def test_folders_are_named_by_what_a_run_changes(value, text):
    assert grid._folder({"some.key": value, "seed": 1}) == f"key={text},seed=1"


@pytest.mark.parametrize("name", ["cifar10_noisy_rare", "cifar10_noisy_frequent"])
def test_how_many_batches_have_all_classes(name):
    table = TABLES[name]
    config = table.settings["ratio100"]()
    sizes = np.full(10, 5000.0)
    sizes[: len(config.data.imbalance.classes)] /= config.data.imbalance.ratio
    subsets = np.array(list(itertools.product((0, 1), repeat=10)))
    without = 1 - subsets @ sizes / sizes.sum()
    share = np.sum((-1.0) ** subsets.sum(1) * np.maximum(without, 0) ** config.batch_size)
    assert (
        f"all are in {100 * share:.2f}% of the batches" in table.rows["DMI"].impossible["ratio100"]
    )


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_of_the_paper_and_its_configs_are_possible(name, scale, tmp_path):
    table, reported = TABLES[name], paper(name)
    assert len(table.columns) == len(reported.columns)
    plain = lambda name: "".join(filter(str.isalnum, name.lower()))
    ours = [name for name in table.rows if name not in reported.rows]
    assert not {plain(name) for name in ours} & {plain(name) for name in reported.rows}
    assert list(table.rows)[len(table.rows) - len(ours) :] == ours
    assert all(len(cells) == len(table.columns) for cells in reported.rows.values())
    assert {column.setting for column in table.columns} == set(table.settings)
    assert all(row.method in METHODS for row in table.rows.values())
    assert all(set(row.impossible) <= set(table.settings) for row in table.rows.values())
    Grid(table, SCALES[scale], list(table.settings), [0], tmp_path).check()


def test_the_recipe():
    config = recipes.noisy_and_rare(10)
    validate(config)
    assert config.model.depth == 32
    assert config.optimizer.decay_epochs == (80.0, 100.0)
    assert config.data.imbalance.classes == ("cat", "dog", "truck", "automobile")
    tail = recipes.long_tailed(100, 100)
    tail.reweighting.start_epoch = 80.0
    recipes.shrink(tail)
    validate(tail)
    assert tail.reweighting.start_epoch / tail.train.epochs == pytest.approx(80 / 120)
    assert tail.optimizer.decay_epochs[0] == tail.reweighting.start_epoch


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one of the arguments --table --figure is required; --help says more"),
        pytest.param(
            ("--table=imbd",), "invalid choice: 'imbd' (choose from", marks=pytest.mark.slow
        ),
        pytest.param(
            ("--table=weights", "--seeds=0"),
            "--seeds: 0 must be positive",
            marks=pytest.mark.slow,
        ),
        (("--table=weights", "--settings=cifar100"), "cifar100 is unknown: weights has cifar10"),
        pytest.param(("--table=weights", "x"), "unrecognized arguments: x", marks=pytest.mark.slow),
    ],
)
def test_wrong_flags_end_in_one_line(arguments, message):
    command = [sys.executable, "-m", "har_jax.reproduce", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1
