"""A person's table of texts goes through all stages, and comes out as predictions."""

import csv
import json

import numpy as np
import pyarrow.csv
import pytest

from har_jax import config as har_config
from har_jax.config import recipes
from har_jax.data.examples import DataError
from har_jax.data.reading.texts import Vocabulary
from har_jax.experiment.algorithm import Experiment

WORDS = {"sport": ("ball", "goal", "team"), "food": ("bread", "salt", "soup")}


def write(path, header=("text", "label", "group", "split")):
    rng = np.random.default_rng(0)
    rows = [
        {
            "text": f"The {rng.choice(WORDS[label])}, the\n{rng.choice(WORDS[label])}",
            "label": label,
            "group": source,
            "split": split,
        }
        for split, count in (("train", 20), ("test", 6))
        for label in WORDS
        for source in ("news", "web")
        for _ in range(count)
    ]
    rows[0]["text"] = ""
    rows[1]["text"] = "soup " * 50_000
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def small(table, **changes):
    config = recipes.own_texts()
    config.data.table = str(table)
    config.data.on_leak = "keep"  # of so few words
    config.data.keep_groups_whole = False
    config.data.length = 6
    config.data.vocabulary_size = 20
    config.methods = ("har",)
    config.devices = 1
    config.batch_size = 8
    config.model.widths = (6,)
    config.model.embedding = 4
    config.optimizer.learning_rate = 0.03
    config.pretrain.epochs = config.train.epochs = 6.0
    config.update_from_flattened_dict(changes)
    har_config.validate(config)
    return config


@pytest.mark.slow
def test_texts_go_through_all_stages(tmp_path):
    config = small(write(tmp_path / "table.csv"))
    experiment = Experiment(config, tmp_path / "w")
    experiment.run()
    experiment.run("predict")
    results = json.loads((tmp_path / "w" / "report" / "results.json").read_text())
    assert [group["name"] for group in results["groups"]] == ["news", "web"]
    assert results["means"]["har"]["all"]["test_accuracy"] == 1
    words = Vocabulary.load(tmp_path / "w" / "train" / "har" / "vocabulary.txt").words
    assert set(words) == {"<padding>", "<unknown>", "the", *WORDS["sport"], *WORDS["food"]}
    table = pyarrow.csv.read_csv(tmp_path / "w" / "predict" / "har.csv").to_pydict()
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        written = [row["text"] for row in csv.DictReader(file)]
    assert table["text"] == [text.strip() for text in written]
    assert np.isfinite(table["loss"]).all()


@pytest.mark.parametrize(
    ("header", "changes", "message"),
    [
        (("text", "group"), {}, "has the columns 'text', 'group', and lacks label"),
        (("group", "label"), {}, r"columns 'group', 'label', and lacks path \(or text\)"),
        (
            ("text", "label"),
            {
                "model.name": "convnet",
                "model.embedding": None,
                "model.dropout": None,
                "data.length": None,
                "data.vocabulary_size": None,
                "regularizer.layers": "normalization",
            },
            "source='csv' has texts, and the network of config.model.name takes images",
        ),
    ],
)
def test_tables_and_networks_that_do_not_fit(tmp_path, header, changes, message):
    config = small(write(tmp_path / "table.csv", header), **changes)
    with pytest.raises(DataError, match=message):
        Experiment(config, tmp_path / "w").run()


def test_a_network_for_texts_and_a_table_of_images(tmp_path):
    names = [f"{label}{number}.png" for number in range(5) for label in "xy"]
    for name in names:
        (tmp_path / name).touch()
    rows = "".join(f"{name},{name[0]}\n" for name in names)
    (tmp_path / "table.csv").write_text(f"path,label\n{rows}")
    with pytest.raises(DataError, match=r"source='csv' has images, and .* takes texts"):
        Experiment(small(tmp_path / "table.csv"), tmp_path / "w").run()
