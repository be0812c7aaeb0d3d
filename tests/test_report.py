"""What a report says where there is nothing to say it of."""

import numpy as np
import pytest

from har_jax.data import Examples
from har_jax.data.protocol import TrainingData
from har_jax.report.page import write_page
from har_jax.report.results import Inputs, summarize
from har_jax.report.table import format_table

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
