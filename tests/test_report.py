"""What a report says where there is nothing to say it of, and where there is too much."""

import csv
import dataclasses
import time

import numpy as np
import pytest

from har_jax.data import Examples
from har_jax.data.protocol import TrainingData
from har_jax.report.page import write_page
from har_jax.report.results import Inputs, summarize
from har_jax.report.selection import MOST, as_csv, shown
from har_jax.report.table import format_table
from har_jax.strength import GroupStatistics

NOTHING = {"kind": "none"}


@pytest.fixture
def inputs():
    labels = np.array([0, 0, 1, 1], np.int32)
    train = Examples(np.zeros((4, 2, 2, 1), np.float32), labels)
    test = Examples(np.zeros((2, 2, 2, 1), np.float32), np.array([0, 0], np.int32))
    evaluation = {
        "strength": np.zeros(4),
        "train_loss": np.ones(4),
        "train_prediction": labels,
        "test_loss": np.ones(2),
        "test_prediction": np.array([0, 1]),
        "test_top5": np.array([1, 1]),
    }
    return Inputs(
        config={"seed": 0, "data.source": "digits", "data.evaluate_on": "test"},
        data=TrainingData(train, labels, test, ("a", "b", "c"), ("a", "b", "c"), (1,), (2,)),
        held_out=None,
        statistics=None,
        folds=None,
        evaluations={"erm": evaluation},
        given={},
        metrics={"erm": [{"step": 1, "epoch": 1.0, "loss": 1.0, "skipped": 2}]},
    )


def test_a_class_that_is_absent_has_null_and_is_left_out_of_means(inputs, tmp_path):
    results = summarize(inputs)
    of = [group["methods"]["erm"] for group in results["groups"]]
    assert [group["test_n"] for group in results["groups"]] == [2, 0, 0]
    assert [each["test_accuracy"] for each in of] == [0.5, None, None]
    assert [each["train_accuracy"] for each in of] == [1.0, 1.0, None]
    assert results["means"]["erm"]["all"]["test_accuracy"] == 0.5
    assert results["means"]["erm"]["rare"]["test_accuracy"] is None
    assert "0.5" not in format_table(results).splitlines()[3]
    write_page(tmp_path / "index.html", inputs, results)
    page = (tmp_path / "index.html").read_text()
    assert "nan" not in page.lower()
    assert "erm left out 2 steps." in page


def many(groups, methods=("erm", "har"), *, test=5, estimated=True):
    """Inputs of so many groups, each of 3 training examples; of random predictions."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(groups, dtype=np.int32), 3)
    test_labels = np.repeat(np.arange(groups, dtype=np.int32), test)
    zeros = lambda n: np.zeros((n, 1, 1, 1), np.uint8)
    names = tuple(f"class {group}" for group in range(groups))
    right = lambda labels: np.where(rng.random(len(labels)) < 0.5, labels, 0)
    evaluation = lambda: {
        "strength": rng.random(len(labels)),
        "train_loss": rng.random(len(labels)),
        "train_prediction": right(labels),
        "test_loss": rng.random(len(test_labels)),
        "test_prediction": right(test_labels),
        "test_top5": rng.integers(0, 2, len(test_labels)),
    }
    statistics = GroupStatistics(
        **{
            field.name: np.full(groups, 7)
            if field.name.endswith("count")
            else rng.random(groups) + 0.1
            for field in dataclasses.fields(GroupStatistics)
        }
    )
    folds = {
        "validation_count": np.ones((5, groups), int),
        "observed_error": rng.random((5, groups)),
        "standard_error": rng.random((5, groups)),
    }
    return Inputs(
        config={
            "seed": 0,
            "data.source": "csv",
            "data.evaluate_on": "test",
            "data.noise.groups": tuple((group, group + 1) for group in range(0, groups - 1, 2)),
        },
        data=TrainingData(
            Examples(zeros(len(labels)), labels),
            labels,
            Examples(zeros(len(test_labels)), test_labels),
            names,
            names,
            tuple(range(1, groups, 2)),
            tuple(range(0, groups, 2)),
        ),
        held_out=None,
        statistics=statistics if estimated else None,
        folds=folds if estimated else None,
        evaluations={method: evaluation() for method in methods},
        given={},
        metrics={method: [{"step": 1, "epoch": 1.0, "loss": 1.0}] for method in methods},
    )


def test_thousands_of_groups_make_a_report_that_can_be_read(tmp_path):
    inputs, begun = many(10_000), time.process_time()
    results = summarize(inputs)
    table = format_table(results)
    write_page(tmp_path / "index.html", inputs, results)
    lines = list(csv.DictReader(as_csv(results).splitlines()))
    assert time.process_time() - begun < 30
    page = (tmp_path / "index.html").read_text()
    assert len(page) < 1_000_000
    assert len(table) < 10_000
    assert max(map(len, table.splitlines())) < 200
    said = "9960 of 10000 groups are left out; shown are the 40 of the least and the greatest gain"
    assert said in table
    assert said in page
    gains = [float(line["har_test_accuracy"]) - float(line["erm_test_accuracy"]) for line in lines]
    assert [int(line["group"]) for line in lines] == list(range(10_000))
    chosen = [group["group"] for group in shown(results)[0]["groups"]]
    order = np.argsort(gains, kind="stable")
    np.testing.assert_array_equal(chosen, [*order[:20], *order[-20:]])
    assert len(results["groups"]) == 10_000


def test_all_groups_are_shown_where_they_can_be_read():
    results = summarize(many(MOST))
    assert shown(results) == (results, "")
    assert sum("class" in line for line in format_table(results).splitlines()) == MOST


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"methods": ("erm",)}, "accuracy on validation examples"),
        ({"methods": ("erm",), "estimated": False}, "accuracy of erm"),
        ({"test": 0}, "accuracy on validation examples"),
    ],
)
def test_what_groups_are_chosen_by(options, what):
    results = summarize(many(MOST + 1, **options))
    kept, note = shown(results)
    assert f"1 of {MOST + 1} groups are left out" in note
    assert what in note
    assert len(kept["groups"]) == MOST


def test_groups_are_counted_as_by_hand():
    inputs = many(7)
    results = summarize(inputs)
    evaluation, labels = inputs.evaluations["har"], inputs.data.test.labels
    for group in results["groups"]:
        rows = labels == group["group"]
        right = evaluation["test_prediction"][rows] == labels[rows]
        assert group["methods"]["har"]["test_accuracy"] == np.mean(right)
        assert (group["n"], group["test_n"]) == (3, 5)
