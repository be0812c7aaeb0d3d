"""What a report says where there is nothing to say it of, and where there is too much."""

import csv
import dataclasses
import html
import html.parser
import re
import time

import numpy as np
import pytest

from har_jax.data import Examples
from har_jax.data.protocol import TrainingData
from har_jax.estimation.estimate import Estimated
from har_jax.methods import METHODS
from har_jax.report import figures, styles
from har_jax.report.comparison import FEW
from har_jax.report.page import write_page
from har_jax.report.results import Inputs, summarize
from har_jax.report.selection import MOST, as_csv, methods_as_csv, shown
from har_jax.report.styles import styles_of
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
        estimated=None,
        errors=None,
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
            "estimate.groups": "given",
            "estimate.noise": "error",
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
        estimated=Estimated(
            statistics,
            names,
            shown=np.full(len(labels), 0.5),
            group=labels,
            noise=statistics.error[labels],
            frequency=statistics.frequency[labels],
            tau=statistics.tau[labels],
            temperatures={},
        )
        if estimated
        else None,
        errors=statistics if estimated else None,
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


ELEVEN = (
    *("erm", "uniform", "har", "gce", "dmi", "co_teaching", "elr", "confident_learning"),
    *("one_of_another_program", "l2rw", "mw_net"),
)


class Tables(html.parser.HTMLParser):
    """The cells of each table of a page, as ``(width, classes, text)``; every tag is closed."""

    CLOSED = ("html", "head", "body", "style", "div", "table", "tr", "th", "td", "p", "ul", "li")

    def __init__(self, page):
        super().__init__()
        self.open, self.tables = [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        if tag in self.CLOSED:
            self.open.append(tag)
        if tag == "table":
            assert self.open[-2] == "div"  # which scrolls
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            given = dict(attributes)
            self.tables[-1][-1].append([int(given.get("colspan", 1)), given.get("class"), ""])

    def handle_endtag(self, tag):
        if tag in self.CLOSED:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1][-1] += data


def page_of(path, inputs):
    write_page(path / "index.html", inputs, summarize(inputs))
    return (path / "index.html").read_text()


OF_TWO = """\
group                 n  mislabelled  strength erm  strength har  accuracy erm  accuracy har
--------------------------------------------------------------------------------------------
class 0 (rare)        3            0         0.461         0.680         100.0         100.0
class 1 (noisy)       3            0         0.562         0.722          60.0          40.0
--------------------------------------------------------------------------------------------
mean of all groups                           0.511         0.701          80.0          70.0
mean of noisy groups                         0.562         0.722          60.0          40.0
mean of rare groups                          0.461         0.680         100.0         100.0
mean of clean groups                         0.461         0.680         100.0         100.0
n: training examples; mislabelled: those with a wrong label; strength: what R is multiplied by;
accuracies and errors are in percent"""


def test_a_table_of_few_methods_has_a_row_for_each_group():
    assert format_table(summarize(many(2, estimated=False))) == OF_TWO
    assert "class 0" in format_table(summarize(many(2, ELEVEN[:FEW])))


@pytest.mark.parametrize("count", [FEW + 1, len(ELEVEN)])
def test_a_table_of_many_methods_has_a_row_for_each(count):
    results = summarize(many(10, ELEVEN[:count]))
    lines = format_table(results).splitlines()
    assert max(map(len, lines)) <= 110
    assert tuple(line.split()[0] for line in lines[2:-2]) == ELEVEN[:count]
    assert "index.html and groups.csv" in lines[-1]
    shares = [mean["noisy"]["test_accuracy"] for mean in results["means"].values()]
    noisy, gain = (lines[0].index(head) + len(head) for head in (" noisy", "gain noisy"))
    for line, share in zip(lines[2:-2], shares, strict=True):
        assert line[:noisy].endswith(f" {100 * share:.1f}")
        points = 100 * (share - shares[0])
        assert line.startswith("erm") or float(line[:gain].split()[-1]) == pytest.approx(points)


def test_a_page_of_many_methods_compares_them_in_a_table(tmp_path):
    inputs = dataclasses.replace(many(10, ELEVEN), given={"l2rw": {"meta": 100}})
    results = summarize(inputs)
    methods, groups, _ = Tables(page_of(tmp_path, inputs)).tables
    texts = [[text for _, _, text in row] for row in methods]
    assert [row[0] for row in texts] == ["method", *ELEVEN]
    seen = dict(zip(ELEVEN, [row[-1] for row in texts[1:]], strict=True))
    assert texts[0][-1] == "clean labels seen"
    assert seen == {**dict.fromkeys(ELEVEN, "0"), "l2rw": "100"}
    column = texts[0].index("rare")
    means = {name: mean["rare"]["test_accuracy"] for name, mean in results["means"].items()}
    assert [row[column] for row in texts[1:]] == [f"{100 * means[name]:.1f}" for name in ELEVEN]
    best = {row[0][-1] for row in methods if row[column][1] == "best"}
    assert best == {name for name in ELEVEN if means[name] == max(means.values())}
    for table in (methods, groups):
        assert len({sum(width for width, _, _ in row) for row in table}) == 1
    assert [text for _, _, text in groups[0] if text] == ["strength", "accuracy"]
    assert [text for _, _, text in groups[1]][-len(ELEVEN) :] == [*ELEVEN]


def test_a_page_of_few_methods_says_what_was_gained(tmp_path):
    inputs = dataclasses.replace(many(10), given={"har": {"meta": 100}})
    page = page_of(tmp_path, inputs)
    assert len(Tables(page).tables) == 2  # of groups, and of folds
    assert page.count("<li>har against erm, ") == 4
    assert f'<p class="answer">{summarize(inputs)["answer"]}</p>' in html.unescape(page)
    assert {"groups.csv", "methods.csv"} == set(re.findall(r'href="([^"]*)" download', page))
    assert "<th>accuracy erm</th><th>accuracy har</th>" in page
    said = "har learned from 100 examples that are known to be labelled rightly, beside the"
    assert said in page


@pytest.mark.slow
def test_the_page_of_many_methods_has_their_accuracies_on_other_tests(tmp_path):
    inputs = many(10, ELEVEN)
    for evaluation in inputs.evaluations.values():
        evaluation["far_prediction"] = evaluation["test_prediction"]
        evaluation["far_top5"] = np.ones(50, int)
    data = dataclasses.replace(inputs.data, others={"far": inputs.data.test})
    methods = Tables(page_of(tmp_path, dataclasses.replace(inputs, data=data))).tables[0]
    heads = [text for _, _, text in methods[0]]
    assert heads[-2:] == ["far top-1", "far top-5"]
    assert all(row[-2][-1] == row[heads.index("all")][-1] for row in methods[1:])
    assert all(row[-1][1:] == ["best", "100.0"] for row in methods[1:])


def test_methods_look_different_and_the_same_in_every_report(monkeypatch):
    others = [f"own:{index}" for index in range(28 - len(METHODS))]
    looks = styles_of(others)
    assert len({(style.color, style.dashes) for style in looks.values()}) == 28
    assert len({(style.color, style.hatch) for style in looks.values()}) == 28
    assert len({style.color for style in list(looks.values())[:14]}) == 14
    before = styles_of(())
    monkeypatch.setattr(styles, "METHODS", {**METHODS, "appended": None})
    assert before.items() < styles_of(reversed(METHODS)).items()


def size_of(figure):
    lengths = re.search(r'viewBox="0 0 (\S+) (\S+)"', figure).groups()
    return [float(length) / 72 for length in lengths]  # in inches


@pytest.mark.parametrize(
    "methods", [ELEVEN[:2], pytest.param(ELEVEN, marks=pytest.mark.slow)], ids=len
)
def test_figures_fit_a_page(methods):
    inputs = many(20, methods)
    record = dict.fromkeys(("epoch", "accuracy", "loss", "norm", "rate", "weight"), 1.0)
    histograms = figures.loss_histograms(inputs)
    curves = figures.training_curves({method: [record] for method in methods}, methods)
    bars = figures.accuracies(inputs, summarize(inputs))
    for drawn in (histograms, curves):
        assert size_of(drawn)[0] <= 16
    assert size_of(curves)[1] == 6  # five panels, in two rows
    for drawn in (histograms, curves, bars):
        assert drawn.count('id="legend_') == 1
    assert size_of(bars)[0] == 9
    few = many(figures.MOST_IN_A_ROW, methods)
    assert size_of(figures.accuracies(few, summarize(few)))[0] in (11, pytest.approx(10.8))


def test_a_legend_of_many_runs_is_not_cut_off():
    runs = [*(f"pretrain_{fold}" for fold in range(10)), *ELEVEN]
    drawn = figures.training_curves({run: [{"epoch": 1.0, "loss": 1.0}] for run in runs}, ELEVEN)
    frame = re.search(r'id="legend_.*?<path d="([^"]*)"', drawn, re.DOTALL).group(1)
    corners = np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", frame), float) / 72
    assert len(corners) > 3
    assert np.all(corners >= 0)
    assert np.all(corners <= size_of(drawn))


@pytest.mark.slow
@pytest.mark.parametrize("groups", [100, 1000])
def test_figures_of_many_classes_have_a_row_for_each_name_and_all_in_one(tmp_path, groups):
    inputs = many(groups, ELEVEN)
    results = summarize(inputs)
    kept, _ = shown(results)
    drawn = figures.accuracies(inputs, kept)
    width, height = size_of(drawn)
    assert width == 9
    assert height / MOST > 0.2  # inches a name
    assert "accuracies of all groups, sorted" in page_of(tmp_path, inputs)


def test_figures_take_the_colours_of_the_page(tmp_path):
    """What is black or white by itself would vanish on one of a light and a dark ground."""
    page = page_of(tmp_path, many(10, ELEVEN))
    drawn = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawn) == 3
    for each in drawn:
        assert re.match(r'<svg role="img" aria-label="[a-z ]+"', each)
        assert not re.search(r"(fill|stroke): (#000000|#ffffff)", each)
        assert "currentColor" in each
    style = page[: page.index("</style>")]
    dark = style[style.index("prefers-color-scheme: dark") :]
    used = set(re.findall(r"var\((--\w+)", page)) - {"--page"}
    assert all(f"{name}:" in style for name in used - {f"--{c}" for c in ("counts",)})
    assert all(f"{name}:" in dark for name in used | {"--page"})


def test_the_config_is_folded_but_for_what_differs(tmp_path):
    inputs = many(10)
    page = page_of(tmp_path, inputs)
    first, rest = page[page.index("<h2>Config") :].split("<details>")
    assert "data.noise.groups" in first
    assert "data.source" in first  # csv
    assert "data.evaluate_on" in rest
    assert "data.evaluate_on" not in first


def test_methods_have_a_table_to_download():
    results = summarize(many(10))
    lines = list(csv.DictReader(methods_as_csv(results).splitlines()))
    assert [(line["method"], line["groups"]) for line in lines[:5]] == [
        *(("erm", part) for part in ("all", "noisy", "rare", "clean")),
        ("har", "all"),
    ]
    assert lines[0]["gain"] == ""
    for line in lines:
        mean = results["means"][line["method"]][line["groups"]]["test_accuracy"]
        assert float(line["test_accuracy"]) == mean
    gain = results["gains"]["har"]["all"]
    assert [float(lines[4][f"gain_{key}"]) for key in ("low", "high")] == [
        gain["low"],
        gain["high"],
    ]


def test_a_report_has_the_neighbourhoods_that_have_examples():
    inputs = many(4)
    estimated = inputs.estimated
    count = np.array([3, 0, 5, 4])
    estimated = estimated._replace(
        statistics=dataclasses.replace(estimated.statistics, count=count),
        names=("a", "b", "c", "d"),
    )
    for groups, expected in (("cluster", ["a", "c", "d"]), ("given", [])):
        config = {**inputs.config, "estimate.groups": groups}
        found = dataclasses.replace(inputs, config=config, estimated=estimated)
        results = summarize(found)["neighbourhoods"]
        assert [row["name"] for row in results["rows"]] == expected
        assert results["groups"] == groups
