"""Strengths are chosen on held-out training data, with the same budget for every method."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from absl import flags

from har_jax.config import ConfigError, base, command_line, files, flatten, validate
from har_jax.data import DataError
from har_jax.experiment.workdir import StageError, WorkdirError
from har_jax.methods import METHODS
from har_jax.system.lock import LockError, locked
from har_jax.tune import command, trials, tuning
from har_jax.tune.candidates import Candidates, of_grid, of_strengths, strength_key
from har_jax.tune.choice import choose
from har_jax.tune.scores import SCORES, scores
from har_jax.tune.trials import Trials
from har_jax.tune.written import config_file, remarks, summary

ROOT = pathlib.Path(__file__).parent.parent
pytestmark = [
    pytest.mark.filterwarnings("ignore:of what was held out"),
    pytest.mark.filterwarnings("ignore:small groups keep"),
    pytest.mark.filterwarnings("ignore:.* classes are nearly always"),
]
HAR, UNIFORM = "regularizer.strength", "regularizer.uniform_strength"
TINY = (
    "--config.devices=1",
    "--config.data.train_size=200",
    "--config.model.widths=(4,)",
    "--config.pretrain.epochs=1",
    "--config.train.epochs=1",
)


def given(*arguments, file="configs/digits.py"):
    argv = ["tune", f"--config={ROOT / file}", *TINY, *arguments]
    return command_line.read(argv, flags.FlagValues())


def tune(workdir, of, *, strengths="0.1,1", methods=("har", "uniform"), seeds=(0, 1), **options):
    tuned = of_strengths(methods, strengths)
    options = {"fraction": 0.2, "score": "mean_per_class", "jobs": 1, **options}
    tuning.tune(of, tuned, seeds, workdir, **options)
    return json.loads((workdir / "tuned.json").read_text())


# The choice.


def test_the_choice_is_that_of_a_loop_in_any_order():
    seed = np.random.randint(2**31)  # noqa: NPY002
    rng = np.random.default_rng(seed)
    for _ in range(50):
        values = rng.permutation([0.0, 0.1, 0.3, 1.0, 3.0])[: rng.integers(1, 6)]
        of_seeds = rng.integers(0, 4, (len(values), rng.integers(1, 4))) / 3  # with many ties
        of_seeds[rng.random(of_seeds.shape) < 0.2] = np.nan
        ranks = {
            value: (-round(sum(x for x in row if x == x) / len(row), 9), sum(row != row), value)
            for value, row in zip(values, of_seeds, strict=True)
        }
        choice = choose(values, of_seeds)
        assert values[choice.best] == min(ranks, key=ranks.get), f"seed {seed}: {of_seeds}"
        order = rng.permutation(len(values))
        again = choose(values[order], of_seeds[order])
        assert values[order][again.best] == values[choice.best], f"seed {seed}"
        assert again.edge == choice.edge


def test_ties_go_to_the_weaker_strength_also_where_sums_are_rounded():
    assert choose([1.0, 0.3, 0.1], np.array([[0.5], [0.7], [0.7]])).best == 2
    rounded = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]])
    assert rounded.mean(1)[0] != rounded.mean(1)[1]
    assert [choose(order, rounded).best for order in ([0.1, 0.3], [0.3, 0.1])] == [0, 1]


def test_a_run_that_diverged_counts_as_the_worst():
    choice = choose([0.1, 1.0], np.array([[0.5, 0.5], [0.9, np.nan]]))
    assert choice.best == 0
    np.testing.assert_allclose(choice.mean, [0.5, 0.45])
    assert choice.failed.tolist() == [0, 1]
    assert choose([0.1, 1.0], np.array([[np.nan], [0.0]])).best == 1  # 0 is better than nothing
    assert choose([0.1, 1.0], np.full((2, 2), np.nan)).failed.tolist() == [2, 2]


def test_the_standard_error_is_over_seeds():
    of_seeds = np.array([[0.5, 0.7, 0.6]])
    expected = np.std([0.5, 0.7, 0.6], ddof=1) / 3**0.5
    np.testing.assert_allclose(choose([0.1], of_seeds).standard_error, expected)
    assert np.isnan(choose([0.1], of_seeds[:, :1]).standard_error)


@pytest.mark.parametrize(
    ("values", "best", "edge"),
    [
        ([0.1, 0.3, 1.0], 0, "least"),
        ([0.1, 0.3, 1.0], 1, None),
        ([0.1, 0.3, 1.0], 2, "greatest"),
        ([0.0, 0.3, 1.0], 0, None),
        ([0.3], 0, None),
    ],
)
def test_edges_beyond_which_a_better_one_may_lie(values, best, edge):
    assert choose(values, np.eye(len(values))[:, [best]]).edge == edge


@pytest.mark.parametrize("shape", [(0, 1), (2, 0), (3, 1), (2,)])
def test_scores_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="of 2 values and some seeds"):
        choose([0.1, 1.0], np.zeros(shape))


# What is tuned.


def test_the_key_of_a_strength_comes_from_the_methods_options():
    keys = {"uniform": UNIFORM, "har": HAR, "har_random": HAR, "har_inverse": HAR}
    assert {method: strength_key(method) for method in keys} == keys
    assert set(keys.values()) <= set(flatten(base()))
    for method in set(METHODS) - set(keys):
        with pytest.raises(ConfigError, match=f"{method} has no strength: .* {', '.join(keys)}"):
            strength_key(method)


def test_a_method_of_ones_own_has_the_strength_that_it_describes(tmp_path):
    (tmp_path / "own_penalty.py").write_text(
        "from har_jax.methods import erm\n"
        "def penalized(model, optimizer, *, penalty_strength=0.1, depth=3, **options):\n"
        "    return erm(model, optimizer)\n"
    )
    (tmp_path / "mine.py").write_text(
        "from har_jax import config as har_config\n"
        "def get_config():\n"
        "    config = har_config.base()\n"
        "    config.methods = ('erm', 'own_penalty:penalized')\n"
        "    config.method.penalized.depth = 4\n"
        "    return config\n"
    )
    of = given("--config.method.penalized.penalty_strength=2", file=tmp_path / "mine.py")
    tuned = of_strengths(["own_penalty:penalized", "har"], "0.1,0.5")
    assert tuned[0].key == "method.penalized.penalty_strength"
    runs = Trials(of.config, tuned, [0], tmp_path / "runs").runs
    of_own = runs["own_penalty:penalized", 0.5, 0]
    assert flatten(of_own.config)[tuned[0].key] == 0.5
    assert flatten(of_own.config)["method.penalized.depth"] == 4
    assert of_own.workdir == tmp_path / "runs/seed-0/penalized/penalty_strength=0.5"
    assert "penalized" not in runs["har", 0.1, 0].config.method
    told = {each.name: summary(each, choose([0.1, 0.5], np.eye(2)), np.eye(2), [0, 1])
            for each in tuned}  # fmt: skip
    (tmp_path / "tuned.py").write_text(config_file(of.file, of.changes, told))
    config = files.load(tmp_path / "tuned.py")
    validate(config)
    expected = flatten(of.config) | {tuned[0].key: 0.1, HAR: 0.1}
    assert flatten(config) == expected


def test_other_numbers_of_a_method_can_be_tuned():
    assert of_grid("gce.q=0.5,0.1") == Candidates("gce", "method.gce.q", (0.1, 0.5))
    assert of_grid("har.strength=1") == Candidates("har", HAR, (1,))
    assert of_grid("har.every=2,1").values == (1, 2)


WRONG = [
    ((), "nothing to choose from: give --strengths=0.1,0.3,1, or --grid="),
    (("--methods=har",), "--strengths is missing, such as"),
    (("--strengths=",), "--strengths= is empty: give some"),
    (("--strengths=0.1,-1",), "--strengths: -1 is impossible: it must be finite, and 0 or more"),
    (("--strengths=0.1,1e999",), "--strengths: 1e999 is impossible"),
    (("--strengths=" + 400 * "1",), "is impossible: it must be finite"),
    (("--strengths=1", "--workdir=gs://a/b"), "--workdir=gs://a/b is an address: take a folder"),
    (("--strengths=0.1,x",), "--strengths: x is no number"),
    (("--strengths=True",), "--strengths: True is no number"),
    (("--strengths=0.1,1,0.10",), "--strengths=0.1,1,0.10 names 0.1 twice: remove one"),
    (("--strengths=1", "--methods=harr"), "config.methods='harr' is unknown: take some of erm, "),
    (("--strengths=1", "--methods=erm"), "--methods=erm has no strength: take some of uniform"),
    (("--strengths=1", "--methods=gce"), "of its own options name one, --grid=gce.q=..."),
    (("--strengths=1", "--methods=har,har"), "har is tuned twice, by regularizer.strength and"),
    (("--strengths=1", "--methods="), "--methods is empty, or none of config.methods="),
    (("--strengths=1", "--methods=har,har_random"), "both read config.regularizer.strength, which"),
    (("--strengths=1", "--grid=gce.q=0.1,0.3"), "give each as many, so that all have the same bud"),
    (("--grid=gce.r=0.1",), "gce has no number called r: take one of q"),
    (("--grid=gce=0.1",), "--grid=gce=0.1 must be METHOD.OPTION=VALUES"),
    (("--grid=gce.q=",), "--grid=gce.q= is empty"),
    (("--strengths=1", "--seeds=0,0"), "0,0 must be numbers from 0 on, each once; --help says"),
    (("--strengths=1", "--seeds=x"), "x must be numbers from 0 on"),
    (("--strengths=1", "--fraction=1"), "--fraction: 1 must be a number above 0 and below 1"),
    (("--strengths=1", "--jobs=0"), "--jobs: 0 must be positive"),
    (("--strengths=1", "--score=f1"), "invalid choice: 'f1'"),
    (("--strengths=1", "--tests=1"), "Unknown command line flag 'tests'"),
    (("--strengths=1", "--config.train.epoch=1"), "did you mean config.train.epochs?"),
    (
        ("--strengths=1", "--config.data.evaluate_on=validation",
         "--config.data.validation_fraction=0.5"),
        "config.data.evaluate_on='validation' would compare on what strengths are chosen by",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[str(wrong[0]) for wrong in WRONG])
def test_wrong_arguments_end_in_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main([f"--config={ROOT / 'configs/digits.py'}", *arguments])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert message in told
    assert len(told.splitlines()) == 1


def test_a_score_of_classes_that_there_are_not_is_refused(tmp_path, capsys):
    (tmp_path / "plain.py").write_text("from har_jax.config import base as get_config\n")
    for score, section in (("noisy", "noise"), ("rare", "imbalance")):
        arguments = [f"--config={tmp_path / 'plain.py'}", "--strengths=1", f"--score={score}"]
        with pytest.raises(SystemExit):
            command.main(arguments)
        assert f"config.data.{section}.kind='none': take" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["def get_config(", None])
def test_a_config_that_cannot_be_read_is_told_of(text, tmp_path, capsys):
    if text is not None:
        (tmp_path / "broken.py").write_text(text)
    with pytest.raises(SystemExit):
        command.main([f"--config={tmp_path / 'broken.py'}", "--strengths=1"])
    assert "config file" in capsys.readouterr().err


@pytest.mark.slow
def test_the_ways_in():
    for start in (["har_jax.tune"], ["har_jax", "tune"]):
        run = lambda *more, start=start: subprocess.run(
            [sys.executable, "-m", *start, *more],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        assert "held-out noisy training data" in run("--help").stdout
        told = run("--strengths=1")
        assert (told.returncode, told.stderr) == (
            2,
            "har_jax: --config is missing: try --config=configs/digits.py\n",
        )


# The runs.


def test_every_method_has_the_same_budget_on_what_is_held_out(tmp_path):
    of = given("--config.seed=7")
    tuned = of_strengths(["har", "uniform"], "1,0.1,0.3")
    of_trials = Trials(of.config, tuned, [0, 3], tmp_path, 0.25)
    runs = of_trials.runs
    assert len({run.workdir for run in runs.values()}) == len(runs) == 2 * 3 * 2
    for (method, value, seed), run in runs.items():
        key = {"har": HAR, "uniform": UNIFORM}[method]
        expected = flatten(of.config) | {
            key: value,
            "seed": seed,
            "methods": (method,),
            "data.evaluate_on": "validation",
            "data.validation_fraction": 0.25,
        }
        assert flatten(run.config) == expected
        option = key.rpartition(".")[2]
        assert run.workdir == tmp_path / f"seed-{seed}" / method / f"{option}={value:g}"
    assert flatten(of.config)["seed"] == 7


def test_values_that_look_alike_have_workdirs_of_their_own(tmp_path):
    of_trials = Trials(given().config, of_strengths(["har"], "0.1,0.1000000001"), [0], tmp_path)
    assert len({run.workdir for run in of_trials.runs.values()}) == 2


def test_values_that_a_config_refuses_are_refused(tmp_path):
    check = lambda tuned: Trials(given().config, tuned, [0], tmp_path).check()
    with pytest.raises(ConfigError, match=r"strength=10000000.* is impossible: it must"):
        check(of_strengths(["har"], "1e7"))
    with pytest.raises(ConfigError, match=r"config.regularizer.every=1.5 has the wrong type"):
        check([of_grid("har.every=1.5,2")])


def test_probabilities_of_the_whole_training_set_are_refused(tmp_path):
    foreign = ("--config.estimate.probabilities=p.npy", "--config.estimate.labels=l.npy")
    of = given(*foreign, "--config.pretrain.folds=None")
    with pytest.raises(ConfigError, match=r"probabilities='p.npy' has a row .*: tune har with"):
        Trials(of.config, of_strengths(["uniform", "har"], "1"), [0], tmp_path).check()
    Trials(of.config, of_strengths(["uniform"], "1"), [0], tmp_path).check()


def test_a_part_that_leaves_nothing_is_refused(tmp_path):
    of = given("--config.data.train_size=20")
    with pytest.raises(DataError, match=r"validation_fraction=0.01 of .* examples leaves none"):
        tune(tmp_path, of, methods=["uniform"], strengths="1", fraction=0.01)


def test_a_second_command_in_a_workdir_is_refused(tmp_path):
    with locked(tmp_path), pytest.raises(LockError, match="is in use by process"):
        tune(tmp_path, given())


# What is chosen.


@pytest.fixture
def never_run(monkeypatch):
    """Runs are noted in place of being made; a value scores what the test says."""
    noted, accuracy = [], {}

    def execute(runs, jobs):
        noted.append(list(runs))
        return [results(run) for run in runs]

    def results(run):
        if run.stages is not None:
            return {}
        (method,) = run.config.methods
        value = flatten(run.config)[UNIFORM if method == "uniform" else HAR]
        share = accuracy.get((method, value, run.config.seed), 0.5)
        return share and {
            "class_means": {method: {"all": share, "examples": share / 2}},
            "means": {method: {"all": {"test_accuracy": share / 4}}},
        }

    monkeypatch.setattr(trials, "execute", execute)
    return noted, accuracy


def test_what_is_chosen_is_written_as_a_config(never_run, tmp_path, capsys):
    noted, accuracy = never_run
    accuracy |= {("har", 0.3, 0): 0.8, ("har", 0.3, 1): 0.6, ("har", 1, 1): None}
    accuracy |= {("uniform", 1, 0): 0.75}
    of = given("--config.data.noise.rate=0.3", "--config.data.imbalance.ratio=2")
    told = tune(tmp_path, of, strengths="0.1,0.3,1")
    har, uniform = told["methods"]["har"], told["methods"]["uniform"]
    assert (har["chosen"], har["edge"], har["runs"]) == (0.3, None, 6)
    assert (uniform["chosen"], uniform["edge"], uniform["runs"]) == (1, "greatest", 6)
    assert har["values"][1] == {
        "value": 0.3,
        "mean": pytest.approx(0.7),
        "standard_error": pytest.approx(0.1),
        "by_seed": [0.8, 0.6],
        "failed": [],
    }
    assert har["values"][2]["by_seed"] == [0.5, None]
    assert har["values"][2]["failed"] == [1]
    printed = capsys.readouterr().out
    assert "har: 3 values of config.regularizer.strength at 2 seeds, 6 runs\n" in printed
    assert re.search(r"\n0.3 +70.0 ± 10.0 \* +50.0 ± 0.0\n", printed)
    assert "har, strength 1: seed 1 diverged, or could not be trained, and counts as 0" in printed
    assert "uniform: uniform_strength 1 is the greatest that was tried" in printed
    assert """--config.methods='("erm","har","uniform")'""" in printed
    config = files.load(tmp_path / "tuned.py")
    validate(config)
    assert flatten(config) == flatten(of.config) | {HAR: 0.3, UNIFORM: 1.0}
    (tmp_path / "elsewhere").mkdir()
    moved = (tmp_path / "tuned.py").rename(tmp_path / "elsewhere" / "tuned.py")
    assert flatten(files.load(moved)) == flatten(config)
    first, then = noted
    assert [run.config.methods for run in first] == [("har",)] * 2 + [("uniform",)] * 6
    assert {run.stages for run in first} == {("pretrain", "estimate"), None}
    assert [run.config.methods for run in then] == [("har",)] * 6
    assert {run.shared for run in then} == {run.workdir for run in first[:2]}


def test_what_was_chosen_before_is_kept(never_run, tmp_path, capsys):
    _, accuracy = never_run
    accuracy |= {("har", 0.3, 0): 0.8, ("har", 0.3, 1): 0.6, ("uniform", 0.1, 0): 0.9}
    tune(tmp_path, given(), strengths="0.1,0.3")
    capsys.readouterr()
    told = tune(tmp_path, given(), strengths="0.3,1", methods=("uniform",))
    assert {name: each["chosen"] for name, each in told["methods"].items()} == {
        "har": 0.3,
        "uniform": 0.3,
    }
    printed = capsys.readouterr().out
    assert "uniform: uniform_strength 0.1: tried before, and not compared now: name all" in printed
    assert re.search(r"\nvalue +har strength +uniform uniform_strength\n", printed)
    assert '\'("erm","har","uniform")\'' in printed
    assert flatten(files.load(tmp_path / "tuned.py"))[HAR] == 0.3
    told = tune(tmp_path, given(), methods=("uniform",), seeds=(0, 1, 2))
    assert [*told["methods"]] == ["uniform"]
    assert "har: chosen before, with other seeds, and no longer in" in capsys.readouterr().out
    told = tune(tmp_path, given(), methods=("har_random",), seeds=(0, 1, 2))
    assert [*told["methods"]] == ["uniform", "har_random"]
    told = tune(tmp_path, given(), methods=("har",), seeds=(0, 1, 2))
    assert [*told["methods"]] == ["uniform", "har"]
    assert (
        "har_random: chosen before, for the same config.regularizer.strength, and"
        in capsys.readouterr().out
    )


def test_an_option_that_is_unset_stays_so_in_what_is_written(never_run, tmp_path):
    (tmp_path / "sets.py").write_text(
        "from har_jax.config import base\n"
        "def get_config():\n"
        "    config = base()\n"
        "    config.regularizer.max_norm = 2.0\n"
        "    config.pretrain.fraction = 0.4\n"
        "    return config\n"
    )
    unset = ("--config.regularizer.max_norm=None", "--config.pretrain.fraction=None")
    of = given(*unset, file=tmp_path / "sets.py")
    tune(tmp_path / "run", of)
    config = files.load(tmp_path / "run" / "tuned.py")
    assert config.regularizer.max_norm is None
    assert flatten(config) == flatten(of.config) | {HAR: 0.1, UNIFORM: 0.1}


@pytest.mark.parametrize("score", SCORES)
def test_scores_are_what_the_report_has(score):
    numbers = {
        part: {"test_accuracy": place / 8} for place, part in enumerate(["all", "noisy", "rare"])
    }
    results = {"means": {"har": numbers}, "class_means": {"har": {"all": 0.5, "examples": 0.625}}}
    expected = {"mean_per_class": 0.5, "mean_per_group": 0, "accuracy": 0.625, "noisy": 0.125}
    ended = {"ended": {"har": "it has learned nothing"}}
    found = scores([[results, None, ended]], "har", score)
    np.testing.assert_array_equal(found, [[expected.get(score, 0.25), np.nan, np.nan]])
    nothing = {"means": {"har": {part: {"test_accuracy": None} for part in numbers}}}
    nothing["class_means"] = {"har": {"all": None, "examples": None}}
    with pytest.raises(StageError, match=f"counts for --score={score}: take another"):
        scores([[nothing]], "har", score)


def test_values_that_all_score_alike_are_told_of(never_run, tmp_path, capsys):
    tune(tmp_path, given())
    told = capsys.readouterr().out
    assert "har: all values of strength score 50.0, and the least is taken" in told
    assert "the least that was tried" not in told
    alone = Candidates("har", HAR, (0.1,))
    told = lambda score: {"har": summary(alone, choose([0.1], score), score, [0])}
    assert remarks(told(np.eye(1)), chance=0.1) == []
    assert remarks(told(np.full((1, 1), 0.1)), chance=None) == []
    (guessing,) = remarks(told(np.full((1, 1), 0.1)), chance=0.1)
    assert "har: no value scores above 10.0, as one who always names the same class" in guessing


def test_where_all_runs_diverge_nothing_is_written(never_run, tmp_path):
    _, accuracy = never_run
    accuracy |= {("har", value, seed): None for value in (0.1, 1) for seed in (0, 1)}
    with pytest.raises(StageError, match="har: all runs diverged, or could not train it"):
        tune(tmp_path, given())
    assert not (tmp_path / "tuned.py").exists()


def test_plain_training_that_diverges_is_told_of(tmp_path):
    of = given("--config.optimizer.learning_rate=1e38")
    with pytest.raises(StageError, match="seed-0/shared: plain training diverged, from which"):
        tune(tmp_path, of, methods=["har"], strengths="1", seeds=[0])


# From end to end.


@pytest.mark.slow
def test_tuning_from_end_to_end(tmp_path, capsys):
    of = given()
    told = tune(tmp_path, of, seeds=[0])
    read = lambda folder: json.loads((tmp_path / folder / "report/results.json").read_text())
    for method, option in (("har", "strength"), ("uniform", "uniform_strength")):
        for row, value in enumerate(("0.1", "1")):
            report = read(f"seed-0/{method}/{option}={value}")
            share = report["class_means"][method]["all"]
            assert told["methods"][method]["values"][row]["by_seed"] == [share]
            train, test = (report["data"][f"{part}_examples"] for part in ("train", "test"))
            assert test == round(0.2 * (train + test))
    stages = [tmp_path / "seed-0" / at / "pretrain" / "held_out.npz"
              for at in ("shared", "har/strength=1")]  # fmt: skip
    assert stages[0].read_bytes() == stages[1].read_bytes()
    assert not (tmp_path / "seed-0/uniform/uniform_strength=1/pretrain").exists()
    assert capsys.readouterr().out.count("pretrain fold-0: compiling") == 1
    assert tune(tmp_path, of, seeds=[0]) == told
    assert "step" not in capsys.readouterr().out
    with pytest.raises(WorkdirError, match=r"another config \(train.epochs was 1.0, now 2.0\)"):
        tune(tmp_path, given("--config.train.epochs=2"), strengths="0.01,1", seeds=[0])
    assert not (tmp_path / "seed-0/har/strength=0.01").exists()
    assert tune(tmp_path / "at-once", of, seeds=[0], jobs=2) == told


@pytest.mark.slow
def test_the_written_config_is_run(tmp_path):
    flags = [f"--config={ROOT / 'configs/digits.py'}", *TINY, f"--workdir={tmp_path}"]
    of = [*flags, "--strengths=0.2", "--methods=uniform"]
    call = lambda *more: subprocess.run(
        [sys.executable, "-m", *more], cwd=ROOT, check=False, capture_output=True, text=True
    )
    done = call("har_jax.tune", *of)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last == (
        f"python -m har_jax.main --config={tmp_path}/tuned.py "
        """--config.methods='("erm","har","uniform")'"""
    )
    one = ["--config.methods='uniform',", f"--workdir={tmp_path / 'run'}"]
    done = call("har_jax.main", f"--config={tmp_path}/tuned.py", *one)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "run/report/results.json").read_text())
    assert report["config"][UNIFORM] == 0.2
    assert report["config"]["data.evaluate_on"] == "test"
    assert report["means"]["uniform"]["all"]["strength"] == pytest.approx(0.2)


@pytest.mark.slow
def test_what_was_cut_goes_on_to_the_same_choice(tmp_path):
    def arguments(workdir):
        flags = [f"--config={ROOT / 'configs/digits.py'}", *TINY, f"--workdir={tmp_path / workdir}"]
        return [*flags, "--strengths=0.1,1", "--methods=har"]

    command_of = lambda workdir: [sys.executable, "-m", "har_jax.tune", *arguments(workdir)]
    whole = subprocess.run(command_of("whole"), cwd=ROOT, check=False, capture_output=True)
    assert whole.returncode == 0, whole.stderr
    expected = json.loads((tmp_path / "whole" / "tuned.json").read_text())
    for number in (signal.SIGKILL, signal.SIGTERM):
        workdir = tmp_path / number.name
        one = workdir / "seed-0/har/strength=0.1/train/har/stage.json"
        cut = subprocess.Popen(
            command_of(workdir.name), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 200
        while not one.exists() and time.monotonic() < end:
            time.sleep(0.01)
        cut.send_signal(number)
        assert cut.wait(30) != 0
        assert one.exists()
        assert not (workdir / "tuned.json").exists()
        again = subprocess.run(
            command_of(workdir.name), cwd=ROOT, check=False, capture_output=True, text=True
        )
        assert again.returncode == 0, again.stderr
        assert "shared/pretrain: complete, skipped" in again.stdout
        assert json.loads((workdir / "tuned.json").read_text()) == expected
