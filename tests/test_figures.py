"""The paper's figures, from the command to files, at tiny size."""

import json

import pytest

from har_jax.experiment.workdir import StageError
from har_jax.reproduce import __main__ as command
from har_jax.reproduce.figures import losses, per_class, runs, strengths, theory

pytestmark = pytest.mark.filterwarnings("ignore:of what was held out")

CONFIG = """
from har_jax import config as har_config


def get_config():
    config = har_config.base()
    config.devices = 1
    config.data.train_size = 100
    config.data.noise.kind = "groups"
    config.data.noise.groups = ((3, 8),)
    config.data.noise.rate = 0.4
    config.model.widths = (4,)
    config.pretrain.epochs = config.train.epochs = 1.0
    return config
"""


def files_of(folder, name):
    svg, png = (folder / f"{name}.{kind}" for kind in ("svg", "png"))
    assert svg.read_text().startswith("<svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    return json.loads((folder / f"{name}.json").read_text())


def test_theory_by_the_command(tmp_path, monkeypatch, capsys):
    toy, ratios = theory.toy, theory.ratios
    monkeypatch.setattr(theory, "toy", lambda: toy(count=60, draws=2))
    monkeypatch.setattr(theory, "ratios", lambda: ratios(count=200, repeats=2))
    command.main(["--figure=theory", f"--workdir={tmp_path}"])
    assert "theory_toy.svg" in capsys.readouterr().out
    errors = files_of(tmp_path / "theory", "theory_toy")
    left, right = (errors[f"uniform, best for the {side}"]["error"] for side in ("left", "right"))
    assert left[0] < right[0]
    assert right[1] < left[1]
    designs = files_of(tmp_path / "theory", "theory_ratio")["designs"]
    rules = designs["4 times as noisy and as rare"]["rules"]
    assert rules["our rule"]["ratio"] == pytest.approx(16**0.4 / 4**0.6)
    assert rules["the paper's, I = 1"]["ratio"] == pytest.approx(4**-0.6)
    assert rules["uniform"]["ratio"] == pytest.approx(1 / 4)


def test_the_rules_ratio_has_less_error_than_that_of_no_noise():
    design = {"noisy": theory.wave([1.0, 1.0], [0.3, 1.2])}
    drawn = theory.ratios(count=600, repeats=12, designs=design)
    rules = drawn.numbers["designs"]["noisy"]["rules"]
    assert rules["our rule"]["error"] < rules["the paper's, I = 1"]["error"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    (folder / "tiny.py").write_text(CONFIG)
    given = ["--figure=strengths", "--strengths", "0.1", "1", "--seeds=1"]
    command.main([*given, f"--config={folder / 'tiny.py'}", f"--workdir={folder}"])
    return folder


@pytest.mark.slow
def test_strengths_are_made_and_drawn(made):
    numbers = files_of(made / "strengths", "strengths")
    found = runs.existing([made])
    assert len(found) == 2
    for run in found:
        strength = run.config["regularizer.strength"]
        for method in ("uniform", "har"):
            (point,) = (p for p in numbers["noisy"][method] if p["strength"] == strength)
            accuracy = run.results["means"][method]["noisy"]["test_accuracy"]
            assert point["mean"] == pytest.approx(100 * accuracy)
    assert len(numbers["all"]["erm"]) == 1


@pytest.mark.slow
def test_losses_and_classes_of_runs_that_exist(made, capsys):
    folder = made / "figures" / "tiny" / "seed-0" / "strength-0.1"
    for name in ("losses", "per_class"):
        command.main([f"--figure={name}", f"--workdir={made}", "--runs", str(folder)])
    numbers = files_of(made / "losses", "losses")
    assert sum(each.get("n", 0) for each in numbers["of plain training"].values()) == 100
    (run,) = runs.existing([folder])
    wrong = sum(run.results["data"]["mislabelled_count"])
    assert numbers["of plain training"]["noisy"]["n"] == wrong > 0
    classes = files_of(made / "per_class", "per_class")["classes"]
    shown = [each["strength"][0] for each in classes]
    assert shown == sorted(shown)
    by_name = {group["name"]: group for group in run.results["groups"]}
    for each in classes:
        assert each["har"][0] == by_name[each["name"]]["methods"]["har"]["test_accuracy"]


@pytest.mark.slow
def test_what_cannot_be_drawn_is_refused(made):
    _, second = runs.existing([made])
    with pytest.raises(StageError, match="no plain training"):
        losses.draw(second)
    with pytest.raises(StageError, match="two strengths"):
        strengths.draw([second])
    share = {"noisy": {"test_accuracy": 0.0}}
    twice = runs.Made(second.workdir, {**second.results, "means": {"har": share}})
    with pytest.raises(StageError, match="is not the only run of har at strength 1 and seed 0"):
        strengths.draw([second, twice])
    other = runs.Made(second.workdir, {**second.results, "groups": [{"name": "x"}]})
    with pytest.raises(StageError, match="has other groups"):
        per_class.draw([second, other])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--figure=theory", "--table=imdb"], "not allowed with"),
        (["--figure=losses", "--runs", "nowhere"], "--runs=nowhere holds no complete run"),
        (["--figure=losses", "--config=nowhere"], "--config=nowhere is neither a file nor one of"),
    ],
)
def test_what_is_given_wrongly_ends_in_one_line(given, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        command.main([*given, f"--workdir={tmp_path}"])
    told = capsys.readouterr().err
    assert message in told
    assert len(told.strip().splitlines()) == 1
