"""A person's folder or table of images goes through all stages, and comes out as predictions."""

import json
import re

import chex
import jax
import numpy as np
import optax
import pyarrow.csv
import pyarrow.parquet
import pytest

from har_jax import config as har_config
from har_jax import methods
from har_jax.data.examples import DataError
from har_jax.data.images import normalizer
from har_jax.data.reading.encoded import Reading
from har_jax.data.sources import folder
from har_jax.experiment.algorithm import Experiment
from har_jax.models import ConvNet
from har_jax.system.files import read_arrays
from har_jax.train.loop import fit
from har_jax.train.mesh import AXIS, data_mesh
from tests.own_images import write_folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    write_folder(root, {"cat": 20, "dog": 12, "eel": 8})
    (root / "notes.txt").touch()
    return root


def own(source, **data):
    config = har_config.base()
    config.data.source = source
    config.data.image_size = 16
    config.data.augment = "resized_crop_and_flip"
    for key, value in data.items():
        config.data[key] = value
    config.devices = 1
    config.batch_size = 8
    config.model.widths = (4,)
    config.pretrain.epochs = config.train.epochs = 2.0
    har_config.validate(config)
    return config


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:of what was held out")
def test_a_folder_goes_through_all_stages(root, tmp_path, capsys):
    config = own("folder", root=str(root))
    config.data.noise.kind, config.data.noise.rate = "symmetric", 0.3
    Experiment(config, tmp_path).run()
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert [group["name"] for group in results["groups"]] == ["cat", "dog", "eel"]
    assert results["data"]["true_count"] == [16, 10, 6]
    assert results["data"]["classes"] == ["cat", "dog", "eel"]
    assert results["data"]["splits"] == {
        "train": f"the folder '{root.name}'",
        "test": f"0.2 of the folder '{root.name}', at random",
    }
    assert results["data"]["found"] == {"left out: files *.txt": 1}
    lines = [
        f"train: 32 examples, of the folder '{root.name}'",
        "left out: files *.txt: 1",
        "true_count: cat 16, dog 10, eel 6",
    ]
    said, page = capsys.readouterr().out, (tmp_path / "report" / "index.html").read_text()
    assert [line for line in lines if f"data: {line}\n" not in said] == []
    assert re.search(r"data: 3 classes, of train \+ test: cat \d+ \+ 4, dog \d+ \+ 2, eel", said)
    assert "left out: files *.txt" in page
    assert f"<title>erm and har on folder {root}</title>" in page
    assert (tmp_path / "train/erm/classes.txt").read_text() == "cat\ndog\neel\n"
    assert results["unreadable"] == {name: {"train": 0, "test": 0} for name in ("erm", "har")}
    assert not (tmp_path / "predict").exists()

    Experiment(config, tmp_path).run("predict")
    table = pyarrow.csv.read_csv(tmp_path / "predict" / "har.csv").to_pydict()
    assert len(table["path"]) == 40
    assert table["split"] == ["train"] * 32 + ["test"] * 8
    assert [path.split("/")[0] for path in table["path"][32:]] == table["label"][32:]
    evaluation = read_arrays(tmp_path / "train" / "har" / "evaluation.npz")
    np.testing.assert_allclose(table["loss"][:32], evaluation["train_loss"], rtol=1e-4)
    np.testing.assert_allclose(table["strength"][:32], evaluation["strength"])
    np.testing.assert_allclose(table["label_probability"], np.exp(-np.array(table["loss"])), 1e-4)
    assert set(table["strength"][32:]) == {None}
    assert min(table["norm"]) > 0
    held_out = read_arrays(tmp_path / "pretrain" / "held_out.npz")
    losses = np.array(table["held_out_loss"][:32], float)
    np.testing.assert_allclose(losses[held_out["index"]], held_out["loss"], rtol=1e-6)
    assert np.isnan(losses).sum() == 16
    assert table["prediction"][0] in ("cat", "dog", "eel")


@pytest.mark.filterwarnings("ignore:of what was held out")
@pytest.mark.slow
def test_a_table_with_groups_is_regularized_by_group(root, tmp_path):
    lines = ["path,label,group,split"]
    for number, path in enumerate(sorted(root.glob("*/*"))):
        split = "test" if number % 5 == 0 else "train"
        lines.append(f"{path.relative_to(root)},{path.parent.name},{'ab'[number % 2]},{split}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    table = str(tmp_path / "labels.csv")
    config = own("csv", root=str(root), table=table, keep_groups_whole=False)
    config.predictions = "parquet"
    config.estimate.smoothing = 1.0
    experiment = Experiment(config, tmp_path / "run")
    experiment.run()
    results = json.loads((tmp_path / "run/report/results.json").read_text())
    assert [group["name"] for group in results["groups"]] == ["a", "b"]
    assert [group["n"] for group in results["groups"]] == [16, 16]
    assert sum(group["test_n"] for group in results["groups"]) == 8
    experiment.run("predict")
    table = pyarrow.parquet.read_table(tmp_path / "run/predict/har.parquet").to_pydict()
    strengths = {group["name"]: group["methods"]["har"]["strength"] for group in results["groups"]}
    for group, strength in zip(table["group"][:32], table["strength"][:32], strict=True):
        assert strength == pytest.approx(strengths[group])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:of what was held out")
def test_files_that_cannot_be_read_are_named_or_left_out_and_counted(tmp_path, capsys):
    write_folder(tmp_path / "images", {"cat": 10, "dog": 10})
    for path in sorted((tmp_path / "images").glob("*/00[0-2].*")):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    config = own("folder", root=str(tmp_path / "images"))
    with pytest.raises(DataError, match=r"00\d\.(jpg|png) cannot be decoded"):
        Experiment(config, tmp_path / "stop").run()
    config = own("folder", root=str(tmp_path / "images"), on_unreadable="skip")
    experiment = Experiment(config, tmp_path / "skip")
    with pytest.warns(UserWarning, match="it and others like it are left out"):
        experiment.run()
    results = json.loads((tmp_path / "skip" / "report" / "results.json").read_text())
    counts = results["unreadable"]["har"]
    assert "could not be read, and are left out" in capsys.readouterr().out
    assert counts["train"] + counts["test"] == 6
    with pytest.warns(UserWarning, match="it and others like it are left out"):
        experiment.run("predict")
    table = pyarrow.csv.read_csv(tmp_path / "skip" / "predict" / "har.csv").to_pydict()
    missing = [
        path for path, loss in zip(table["path"], table["loss"], strict=True) if loss is None
    ]
    assert len(missing) == 6
    assert all("/00" in path for path in missing)


def test_what_is_odd_about_data_is_told_with_methods_that_estimate(root, tmp_path, capsys):
    paths = sorted(str(path.relative_to(root)) for path in root.glob("*/*"))
    lines = [f"{path},{path.split('/')[0]},train" for path in paths if path[:3] != "eel"]
    lines[1] = lines[1].replace("train", "test")
    lines += [lines[0], *(f"{path},eel,test" for path in paths if path[:3] == "eel")]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label,split", *lines]))
    config = own("csv", root=str(root), table=str(tmp_path / "labels.csv"))
    config.pretrain.fraction = 0.999  # which ends the run as soon as its data are there
    with (
        pytest.warns(UserWarning, match="no training example is of class eel"),
        pytest.raises(DataError, match=r"config.pretrain.fraction=0.999 of 32 .* leaves no"),
    ):
        Experiment(config, tmp_path / "run").run()
    assert "data: training examples that equal one before: 1" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_is_cut_sees_the_images_that_it_would_have_seen(
    root, tmp_path, cut_after_saving
):
    def run(name, workers=0, mesh=None):
        reading = Reading(image_size=16, crop="resized_crop_and_flip", workers=workers)
        train = folder(root=root, reading=reading).load(0).train
        data = {"inputs": train.inputs, "labels": train.labels}
        axis = AXIS if mesh else None
        model = ConvNet(3, widths=(4,), norm="layer")
        method = methods.erm(model, optax.sgd(0.1), preprocess=normalizer(None, None), axis=axis)
        sizes = dict(steps=9, batch_size=8, seed=0, log_every=3, checkpoint_every=2, title="test")
        return fit(method, data, tmp_path / name, mesh=mesh, **sizes)

    whole = run("whole")
    cut_after_saving(4, run, "cut", workers=2)
    chex.assert_trees_all_equal(run("cut", workers=2), whole)
    on_four = jax.device_get(run("four", mesh=data_mesh(jax.devices()[:4])))
    chex.assert_trees_all_close(on_four, jax.device_get(whole), rtol=1e-4, atol=1e-5)
