"""Several seeds: what is refused, what is left, what is skipped, and the numbers."""

import csv
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from har_jax.config import ConfigError, base, validate
from har_jax.config.overrides import seeds as parse
from har_jax.experiment import seeds as running
from har_jax.experiment.workdir import WorkdirError
from har_jax.report import seeds
from har_jax.report.paired import Difference

ROOT = pathlib.Path(__file__).parent.parent

ACCURACIES = {
    "erm": {0: {"all": 0.80, "noisy": 0.60}, 1: {"all": 0.82, "noisy": 0.58}, 5: {"all": 0.79}},
    "har": {0: {"all": 0.85, "noisy": 0.72}, 1: {"all": 0.86, "noisy": 0.69}, 5: {"all": 0.85}},
}


def test_numbers_are_means_standard_errors_and_students_intervals_of_pairs():
    numbers = seeds.side_by_side(ACCURACIES, first="erm")
    assert numbers["parts"] == ["all"]  # the last seed has no noisy groups
    before, after = ([of[seed]["all"] for seed in (0, 1, 5)] for of in ACCURACIES.values())
    told = numbers["rows"]["har"]["parts"]["all"]
    assert told["mean"] == pytest.approx(np.mean(after))
    assert told["standard_error"] == pytest.approx(stats.sem(after))
    expected = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert [told["gain"][key] for key in ("low", "high")] == pytest.approx(list(expected))
    assert numbers["rows"]["erm"]["parts"]["all"]["gain"] is None
    table = seeds.format_numbers(numbers)
    assert "all        har      3  85.3 ± 0.3  +5.0 ± 0.6  +2.5 to +7.5" in table
    assert seeds.answer(numbers).startswith("har gained 5.0 points of accuracy over erm on average")
    (row,) = (row for row in csv.DictReader(seeds.as_csv(numbers).splitlines()) if row["gain_n"])
    assert float(row["gain_mean"]) == told["gain"]["mean"]


def test_only_seeds_that_both_have_are_paired():
    accuracies = {**ACCURACIES, "har": {1: ACCURACIES["har"][1], 7: {"all": 0.1}}}
    gain = seeds.side_by_side(accuracies, first="erm")["rows"]["har"]["parts"]["all"]["gain"]
    assert (gain["n"], gain["low"]) == (1, None)
    assert gain["mean"] == pytest.approx(0.04)
    alone = {"har": {"all": Difference(0.04, 0.01, 0.02, 0.06, "test examples", 100)}}
    numbers = seeds.side_by_side(accuracies, first="erm", alone=alone)
    assert "+2.0 to +6.0 (test examples)" in seeds.format_numbers(numbers)
    apart = {"erm": {0: {"all": 0.5}}, "har": {1: {"all": 0.6}}}
    numbers = seeds.side_by_side(apart, first="erm")
    assert "no seed and test set in common" in seeds.answer(numbers)


def test_clean_groups_are_told_of_where_they_are_not_all():
    assert seeds.parts_of({"erm": {0: {"all": 0.5, "rare": 0.4, "clean": 0.5}}}) == ["all", "rare"]
    apart = {"erm": {0: {"all": 0.5, "rare": 0.4, "clean": 0.4}}}
    assert seeds.parts_of(apart) == ["all", "rare", "clean"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0,1,1", "has 1 more than once"),
        ("0,,1", "nonnegative integers with commas between"),
        ("", "nonnegative integers with commas between"),
        ("-1,2", "nonnegative integers"),
        ("0-3", "nonnegative integers"),
    ],
)
def test_lists_that_are_none_are_refused(text, said):
    with pytest.raises(ConfigError, match=re.escape(f"--seeds={text} ") + f".*{said}"):
        parse(text)
    assert parse("3, 0,12") == (3, 0, 12)
    assert parse(None) == ()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--seeds=0,x"], "--seeds=0,x has to be"),
        (["--seeds=0,1", "--config.seed=3"], "--seeds and --config.seed exclude each other"),
    ],
)
def test_the_command_refuses_in_one_line(flags, said, tmp_path):
    command = [sys.executable, "-m", "har_jax", "--config=digits", *flags]
    told = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 2
    assert told.stderr.startswith(f"har_jax: {said}")
    assert told.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.fixture
def config():
    config = base()
    config.data.train_size, config.batch_size = 64, 32
    config.methods = ("erm", "har")
    config.model.widths = (4,)
    config.train.epochs = config.pretrain.epochs = 1.0
    validate(config)
    return config


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:of what was held out")  # by one step of training
def test_every_seed_is_run_once_and_a_missing_one_is_said(config, tmp_path, monkeypatch, capsys):
    run, begun = running.Experiment.run, []

    def failing(self, stage):
        begun.append(self._artefacts.config.seed)
        if begun[-1] == 2:
            raise FloatingPointError("the loss is not finite at step 3")
        run(self, stage)

    monkeypatch.setattr(running.Experiment, "run", failing)
    assert running.run_seeds(config, tmp_path, (0, 2, 3)) == [2]
    assert begun == [0, 2, 3]
    assert config.seed == 0
    told = capsys.readouterr().out
    assert "seed 2 is missing: the loss is not finite at step 3" in told
    whole = json.loads((tmp_path / "report" / "seeds.json").read_text())
    results = {
        seed: json.loads((tmp_path / f"seed-{seed}" / "report" / "results.json").read_text())
        for seed in (0, 3)
    }
    for seed, found in results.items():
        assert found["seed"] == seed
        share = found["means"]["har"]["all"]["test_accuracy"]
        assert whole["by_seed"]["har"][str(seed)]["all"] == share
    assert list(whole["missing"]) == ["2"]
    assert whole["answer"] in told
    page = (tmp_path / "report" / "index.html").read_text()
    for seed in (0, 3):
        assert f'href="../seed-{seed}/report/index.html"' in page
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("seed-*/**/*.npz")}
    assert running.run_seeds(config, tmp_path, (0, 3)) == []
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert capsys.readouterr().out.count("complete, skipped") == 2 * 5
    config.batch_size = 16
    with pytest.raises(WorkdirError, match="another config"):
        running.run_seeds(config, tmp_path, (0,))
    with pytest.raises(WorkdirError, match=r"has a run of one seed \(estimate, pretrain, "):
        running.run_seeds(config, tmp_path / "seed-0", (0, 1))
    running.refuse_several_seeds(tmp_path / "seed-0")
    with pytest.raises(WorkdirError, match="has the report of several seeds"):
        running.refuse_several_seeds(tmp_path)
