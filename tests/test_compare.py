"""Runs side by side: which are one, which can be paired, and what is refused."""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from har_jax import compare
from har_jax.report.paired import over_examples
from har_jax.report.results import summarize
from har_jax.report.runs import RunError, read_runs, series_of
from har_jax.report.runs import compare as paired
from har_jax.system.files import write_arrays, write_json
from tests.test_report import many

ROOT = pathlib.Path(__file__).parent.parent


def write_run(folder, *, seed=0, groups=4, methods=("erm", "har"), strength=1.0, noise=0.4):
    """A workdir as training leaves it, of random predictions."""
    inputs = many(groups, methods, test=20)
    rng, labels = np.random.default_rng(seed), inputs.data.test.labels
    config = {
        **inputs.config,
        "seed": seed,
        "regularizer.strength": strength,
        "data.noise.rate": noise,
    }
    for place, (method, evaluation) in enumerate(inputs.evaluations.items()):
        right = rng.random(len(labels)) < 0.5 + 0.1 * place
        evaluation["test_prediction"] = np.where(right, labels, (labels + 1) % groups)
        path = folder / "train" / method
        path.mkdir(parents=True)
        write_arrays(path / "evaluation.npz", **evaluation)
        made = {"seed": seed, "data.noise.rate": noise}
        made |= {"regularizer.strength": strength} if method == "har" else {}
        write_json(path / "stage.json", {"complete": True, "data": "", "fingerprint": made})
    (folder / "report").mkdir()
    results = json.loads(json.dumps(summarize(dataclasses.replace(inputs, config=config))))
    write_json(folder / "report" / "results.json", results)
    write_arrays(folder / "report" / "test.npz", label=labels, group=labels)
    return results


def runs_of(*folders):
    return [run for folder in folders for run in read_runs(folder)]


def test_seeds_are_one_and_what_differs_is_named(tmp_path):
    for seed in range(3):
        write_run(tmp_path / "a" / f"seed-{seed}", seed=seed)
        write_run(tmp_path / "b" / f"seed-{seed}", seed=seed, strength=0.3)
    series = series_of(runs_of(tmp_path / "a", tmp_path / "b"))
    assert [one.label for one in series] == [
        "erm",  # which no strength reaches
        "har regularizer.strength=1.0",
        "har regularizer.strength=0.3",
    ]
    assert all(list(one.runs) == [0, 1, 2] for one in series)
    numbers, notes = paired(series)
    assert notes == []
    assert numbers["rows"]["har regularizer.strength=0.3"]["parts"]["all"]["gain"]["n"] == 3


def test_one_seed_is_compared_over_its_test_examples(tmp_path):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", noise=0.2)
    series = series_of(runs_of(tmp_path / "a", tmp_path / "b"))
    numbers, notes = paired(series)
    assert notes == []
    right = {}
    for label, path in {"before": "a/train/erm", "after": "b/train/har"}.items():
        with np.load(tmp_path / path / "evaluation.npz") as said:
            right[label] = said["test_prediction"] == np.repeat(np.arange(4), 20)
    expected = over_examples(*right.values(), np.repeat(np.arange(4), 20), range(4))
    gain = numbers["rows"]["har data.noise.rate=0.2"]["parts"]["all"]["gain"]
    assert gain == pytest.approx(expected._asdict())


def test_only_reports_are_enough_but_for_intervals(tmp_path):
    write_run(tmp_path / "a")
    for path in tmp_path.glob("a/train/*/*"):
        path.unlink()
    numbers, _ = paired(series_of(runs_of(tmp_path / "a")))
    gain = numbers["rows"]["har"]["parts"]["all"]["gain"]
    assert (gain["n"], gain["low"]) == (1, None)


def test_other_test_sets_are_said_and_other_classes_refused(tmp_path):
    write_run(tmp_path / "a")
    results = write_run(tmp_path / "b", noise=0.2)
    write_json(tmp_path / "b" / "report" / "results.json", {**results, "test_digest": "another"})
    write_run(tmp_path / "c", seed=1, noise=0.1)
    numbers, notes = paired(series_of(runs_of(tmp_path / "a", tmp_path / "b", tmp_path / "c")))
    assert numbers["rows"]["har data.noise.rate=0.2"]["parts"]["all"]["gain"] is None
    assert any(
        "tested on other examples than erm data.noise.rate=0.4 at seed 0" in n for n in notes
    )
    assert any("have no seed in common: no gain is taken" in note for note in notes)
    write_run(tmp_path / "d", groups=5)
    with pytest.raises(RunError, match="of other classes or groups"):
        paired(series_of(runs_of(tmp_path / "a", tmp_path / "d")))


def test_folders_that_are_none_are_refused(tmp_path):
    with pytest.raises(RunError, match=r"has no report/results\.json"):
        read_runs(tmp_path)
    results = write_run(tmp_path / "a")
    path = tmp_path / "a" / "report" / "results.json"
    del results["test_digest"]
    write_json(path, results)
    with pytest.raises(RunError, match="of an earlier version: delete "):
        read_runs(tmp_path / "a")
    path.write_text("{")
    with pytest.raises(OSError, match="is damaged"):
        read_runs(tmp_path / "a")


def test_the_page_has_the_answer_the_table_and_links(tmp_path, capsys):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", strength=0.3)
    (tmp_path / "a" / "report" / "index.html").write_text("")
    output = tmp_path / "side by side"
    compare.main([str(tmp_path / "a"), str(tmp_path / "b"), f"--output={output}"])
    told = capsys.readouterr().out
    whole = json.loads((output / "seeds.json").read_text())
    assert told.startswith(whole["answer"])
    page = (output / "index.html").read_text()
    assert 'href="../a/report/index.html"' in page
    assert "har regularizer.strength=0.3" in page
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)
    lines = (output / "seeds.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * len(whole["parts"])


def test_the_command_helps_and_refuses(tmp_path):
    run = lambda *words: subprocess.run(
        [sys.executable, "-m", "har_jax", "compare", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    helped = run("--help")
    assert helped.returncode == 0, helped.stderr
    assert "--output" in helped.stdout
    wrong = run("nothing")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("har_jax: nothing has no report/results.json")
    assert wrong.stderr.count("\n") == 1
