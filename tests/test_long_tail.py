"""Classes with many, some and few training examples, counted as by hand, and how they are shown."""

import dataclasses
import json
import re

import numpy as np
import pytest

from har_jax.data import Examples
from har_jax.data.protocol import TrainingData
from har_jax.report.comparison import by_shot
from har_jax.report.frequency import MOST_POINTS, by_frequency, runs_of
from har_jax.report.long_tail import SHOTS, new_shots, shot_of, shots_of
from har_jax.report.page import write_page
from har_jax.report.results import Inputs, summarize
from har_jax.report.table import format_table

METHODS = ("erm", "har")


def inputs_of(counts, tested, methods=METHODS, *, groups=None, noisy=(), rare=(), others=()):
    """Inputs of classes with so many training and test examples; of random predictions."""
    rng = np.random.default_rng(0)
    ids = np.arange(len(counts), dtype=np.int32)
    labels, test_labels = np.repeat(ids, counts), np.repeat(ids, tested)
    examples = lambda labels: Examples(
        np.zeros((len(labels), 1, 1, 1), np.uint8),
        labels,
        None if groups is None else rng.integers(0, groups, len(labels)).astype(np.int32),
    )
    guess = lambda labels: np.where(rng.random(len(labels)) < 0.6, labels, 0)
    evaluation = lambda: {
        "strength": np.zeros(len(labels)),
        "train_loss": rng.random(len(labels)),
        "train_prediction": guess(labels),
        "test_loss": rng.random(len(test_labels)),
        "test_prediction": np.where(rng.random(len(test_labels)) < 0.1, -1, guess(test_labels)),
        "test_top5": np.ones(len(test_labels), int),
    }
    names = tuple(f"class {index}" for index in ids)
    of_groups = names if groups is None else tuple(f"site {group}" for group in range(groups))
    return Inputs(
        config={"seed": 0, "data.source": "csv", "data.evaluate_on": "test"},
        data=TrainingData(
            examples(labels), labels, examples(test_labels), names, of_groups, noisy, rare, *others
        ),
        held_out=None,
        estimated=None,
        errors=None,
        folds=None,
        evaluations={method: evaluation() for method in methods},
        given={},
        metrics={method: [{"step": 1, "epoch": 1.0, "loss": 1.0}] for method in methods},
    )


@pytest.mark.parametrize(
    ("count", "shot"),
    [(0, "few"), (19, "few"), (20, "medium"), (100, "medium"), (101, "many"), (10**6, "many")],
)
def test_shots(count, shot):
    assert shot_of(count) == shot


@pytest.mark.parametrize("groups", [None, 3])
def test_means_are_those_of_a_loop(groups):
    counts = [300, 5, 101, 100, 20, 19, 0, 150]
    inputs = inputs_of(counts, [9, 4, 8, 3, 5, 0, 6, 1], groups=groups)
    results = summarize(inputs)
    labels = inputs.data.test.labels
    for method, evaluation in inputs.evaluations.items():
        shares, right = {}, []
        for example, prediction in zip(labels, evaluation["test_prediction"], strict=True):
            if prediction >= 0:
                shares.setdefault(int(example), []).append(bool(prediction == example))
                right.append(bool(prediction == example))
        of_class = {index: sum(hits) / len(hits) for index, hits in shares.items()}
        for index, each in enumerate(results["classes"]):
            assert each["test_accuracy"][method] == pytest.approx(of_class.get(index))
        means = results["class_means"][method]
        assert means["examples"] == pytest.approx(sum(right) / len(right))
        own = {
            "all": list(of_class),
            "many": [i for i in of_class if counts[i] > 100],
            "medium": [i for i in of_class if 20 <= counts[i] <= 100],
            "few": [i for i in of_class if counts[i] < 20],
        }
        for name, members in own.items():
            assert means[name] == pytest.approx(sum(of_class[i] for i in members) / len(members))
    assert [each["n"] for each in results["classes"]] == counts
    assert [each["test_n"] for each in results["classes"]] == [9, 4, 8, 3, 5, 0, 6, 1]
    assert results["classes"][5]["test_accuracy"] == {"erm": None, "har": None}
    assert {shot: of["classes"] for shot, of in results["shots"].items()} == {
        "many": 3,
        "medium": 2,
        "few": 3,
    }
    if groups is None:
        for method, mean in results["means"].items():
            assert mean["all"]["test_accuracy"] == results["class_means"][method]["all"]
    json.dumps(results, allow_nan=False)


@pytest.mark.parametrize(
    ("counts", "tested", "shots"),
    [
        ([200, 30, 3], [5, 5, 5], list(SHOTS)),
        ([200, 30, 3], [5, 0, 5], ["many", "few"]),
        ([200, 30, 3], [0, 0, 5], []),
        ([50, 60, 70], [5, 5, 5], []),
    ],
)
def test_nothing_is_shown_of_one_shot(counts, tested, shots, tmp_path):
    inputs = inputs_of(counts, tested)
    results = summarize(inputs)
    assert shots_of(results) == shots
    for shot in set(SHOTS) - set(shots):
        assert shots == [] or results["class_means"]["erm"][shot] is None
    write_page(tmp_path / "index.html", inputs, results)
    page = (tmp_path / "index.html").read_text()
    assert page.count("<h2>Long tail</h2>") == bool(shots)
    assert ("-shot classes" in format_table(results)) == bool(shots)
    heads = [column.head for column in by_shot(results)]
    assert heads == (
        ["method", *(f"{shot} (1)" for shot in shots), "mean per class", "all examples"]
        if shots
        else []
    )


@pytest.mark.parametrize("methods", [METHODS, ("erm", "uniform", "har", "gce", "elr")])
def test_a_shot_that_is_a_part_of_the_groups_is_not_told_of_twice(methods):
    counts = [300, 10, 200, 5]
    plain = inputs_of(counts, [5] * 4, methods)
    same = inputs_of(counts, [5] * 4, methods, noisy=(3, 1), rare=(1, 3))
    other = inputs_of(counts, [5] * 4, methods, noisy=(0,), rare=(1, 3))
    assert new_shots(summarize(plain)) == ["many", "few"]
    assert new_shots(summarize(same)) == []
    assert new_shots(summarize(other)) == ["many"]
    assert summarize(same)["shots"]["many"]["same_as"] == "clean"
    tables = [format_table(summarize(each)) for each in (plain, same, other)]
    assert ["shot" in table for table in tables] == [True, False, True]
    for table in tables:
        assert max(map(len, table.splitlines())) <= 110
    means = summarize(plain)["class_means"]
    cells = [f"{100 * means[method]['few']:.1f}" for method in methods]
    if len(methods) == 2:
        (line,) = [each for each in tables[0].splitlines() if each.startswith("mean of few-shot")]
        assert line.split()[-2:] == cells
    else:
        below = tables[0].split("\n\n")[1].splitlines()
        column = below[0].split("  ")
        assert [part.strip() for part in column if part] == [
            *("method", "many (2)", "few (2)", "mean per class", "all examples")
        ]
        assert [line.split()[2] for line in below[2:-2]] == cells


def test_groups_that_are_no_classes_are_no_shot():
    inputs = inputs_of([300, 10, 200, 5], [5] * 4, groups=2)
    assert {of["same_as"] for of in summarize(inputs)["shots"].values()} == {None}


@pytest.mark.parametrize("count", [1, MOST_POINTS, MOST_POINTS + 1, 1000])
def test_runs_hold_every_tested_class_once_from_the_most_frequent_on(count):
    rng = np.random.default_rng(count)
    classes = [
        {"class": index, "n": int(rng.integers(0, 50)), "test_n": int(index % 7 > 0 or count == 1)}
        for index in range(count)
    ]
    runs = runs_of(classes)
    sizes = [len(run) for run in runs]
    flat = [each for run in runs for each in run]
    assert len(runs) <= MOST_POINTS
    assert max(sizes) - min(sizes) <= 1
    assert sorted(each["class"] for each in flat) == [c["class"] for c in classes if c["test_n"]]
    order = [(-each["n"], each["class"]) for each in flat]
    assert order == sorted(order)


def test_a_thousand_classes_make_a_page_of_bounded_size(tmp_path):
    counts = np.round(1280 * 0.005 ** (np.arange(1000) / 999)).astype(int)
    inputs = inputs_of(counts, [5] * 1000, ("erm", "uniform", "har", "gce", "elr", "mw_net"))
    results = summarize(inputs)
    assert shots_of(results) == list(SHOTS)
    figure = by_frequency(results)
    assert len(figure) < 100_000
    assert len(figure) < 2 * len(by_frequency(few_of(results, MOST_POINTS)))
    write_page(tmp_path / "index.html", inputs, results)
    assert (tmp_path / "index.html").stat().st_size < 1_000_000
    assert by_frequency(results) == figure


def few_of(results, count):
    return {**results, "classes": results["classes"][:count]}


def test_the_figure_has_the_names_of_few_classes_and_an_axis_of_counts():
    inputs = inputs_of([300, 10, 200, 5], [5, 5, 0, 5])
    named = dataclasses.replace(inputs.data, class_names=("$a$", "b", "c", "d"))
    figure = by_frequency(summarize(dataclasses.replace(inputs, data=named)))
    said = re.findall(r"<!-- (.*?) -->", figure)
    assert [each for each in said if each in ("$a$", "b", "c", "d")] == ["$a$", "b", "d"]
    assert "classes, the most frequent first" in said
    assert [each for each in said if each in SHOTS] == ["many", "few"]
    assert "nan" not in figure
