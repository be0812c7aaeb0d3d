"""The main job, from the command line: its stages, its report, and what it refuses."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from har_jax.system.files import read_arrays
from har_jax.train.metrics import read_metrics

ROOT = pathlib.Path(__file__).parent.parent
TINY = (
    "--config=configs/digits.py",
    "--config.pretrain.folds=None",
    "--config.train.epochs=1",
    "--config.pretrain.epochs=2",
    "--config.model.widths=8,",
    "--config.log_every=5",
)


def har(*arguments, devices=1, **environment):
    return subprocess.run(
        [sys.executable, "-m", "har_jax.main", *arguments],
        cwd=ROOT,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("finished")
    # One stage by itself, so that the whole run finds it complete.
    one = har(*TINY, f"--workdir={workdir}", "--stage=pretrain")
    all_stages = har(*TINY, f"--workdir={workdir}")
    return workdir, one, all_stages


class TestMainJob:
    def test_runs_to_a_report(self, finished):
        workdir, one, run = finished
        assert one.returncode == 0, one.stderr
        assert run.returncode == 0, run.stderr
        assert sorted(path.name for path in workdir.iterdir()) == [
            ".lock",
            "estimate",
            "pretrain",
            "report",
            "train",
        ]
        assert "pretrain: step 14/14, loss" in one.stdout
        assert f"{workdir}/pretrain: complete, skipped" in run.stdout
        assert "har: step 14/14, loss" in run.stdout
        assert "mean R" in run.stdout
        assert "mean of noisy groups" in run.stdout
        assert "-shot classes" not in run.stdout  # medium-shot are the rare ones
        # After two epochs the model that estimates the noise may know as little as this.
        warning = r"har_jax: warning: (of what was held out|\d+ of 10 classes are nearly always)"
        assert all(re.match(warning, line) for line in run.stderr.splitlines())

    def test_results(self, finished):
        results = json.loads((finished[0] / "report" / "results.json").read_text())
        assert results["config"]["model.widths"] == [8]
        assert len(results["fingerprint"]) == 64
        assert f"\n{results['answer']}\n\ngroup " in finished[2].stdout
        assert results["seed"] == 0
        assert len(results["groups"]) == 10
        for group in results["groups"]:
            assert group["noisy"] == group["rare"] == (group["group"] in (3, 4, 8, 9))
            assert group["n"] == results["data"]["train_count"][group["group"]]
            assert group["methods"]["erm"]["strength"] == 0
            tau = group["noise"] ** 0.6 / (group["n"] / 838) ** 0.4
            assert group["tau"] == pytest.approx(tau, rel=1e-2)
        strengths = [group["methods"]["har"]["strength"] for group in results["groups"]]
        assert max(strengths) == pytest.approx(1.0)
        for method in ("erm", "har"):
            means = results["means"][method]
            accuracies = [g["methods"][method]["test_accuracy"] for g in results["groups"]]
            assert means["all"]["test_accuracy"] == pytest.approx(np.mean(accuracies))
            assert means["noisy"]["test_accuracy"] == pytest.approx(
                np.mean([accuracies[label] for label in (3, 4, 8, 9)])
            )

    def test_the_page_needs_no_other_file(self, finished):
        page = (finished[0] / "report" / "index.html").read_text()
        assert page.count("<svg") == 4
        for link in ("<link", "<script ", "@import", "url(http"):
            assert link not in page
        assert set(re.findall(r'src="(\w+:)', page)) == {"data:"}
        assert page.count("src=") == page.count('src="data:')
        assert "3 (noisy, rare)" in page

    @pytest.mark.slow
    def test_a_terminal_of_another_encoding_fails_no_stage(self, finished, tmp_path):
        workdir = tmp_path / "copy"
        shutil.copytree(finished[0], workdir)
        shutil.rmtree(workdir / "report")
        run = har(*TINY, f"--workdir={workdir}", PYTHONIOENCODING="ascii")
        assert run.returncode == 0, run.stderr
        assert r" \xb1 " in run.stdout
        page = (finished[0] / "report" / "index.html").read_bytes()
        assert (workdir / "report" / "index.html").read_bytes() == page

    def test_a_second_run_skips_everything(self, finished):
        before = (finished[0] / "report" / "results.json").read_bytes()
        run = har(*TINY, f"--workdir={finished[0]}")
        assert run.returncode == 0, run.stderr
        assert run.stdout.count("complete, skipped") == 5
        assert "step" not in run.stdout
        assert (finished[0] / "report" / "results.json").read_bytes() == before

    def test_another_config_is_refused_with_the_keys_that_differ(self, finished):
        run = har(*TINY, f"--workdir={finished[0]}", "--config.regularizer.strength=0.5")
        assert run.returncode == 1
        assert len(run.stderr.splitlines()) == 1
        assert "regularizer.strength was 1.0, now 0.5" in run.stderr
        assert "train/har and" in run.stderr  # and the report, but not erm
        assert "train/erm" not in run.stderr

    @pytest.mark.slow
    def test_a_folder_that_does_not_say_what_it_was_made_from_is_refused(self, finished, tmp_path):
        workdir = tmp_path / "copy"
        shutil.copytree(finished[0], workdir)
        shutil.rmtree(workdir / "report")
        for stage, content in (("pretrain", None), ("estimate", "{")):
            path = workdir / stage / "stage.json"
            path.unlink() if content is None else path.write_text(content)
            run = har(*TINY, f"--workdir={workdir}")
            assert run.returncode == 1
            assert f"{path} does not say what {path.parent} was made from: delete" in run.stderr
            assert len(run.stderr.splitlines()) == 1
            shutil.rmtree(path.parent)

    @pytest.mark.slow
    def test_a_model_that_diverges_in_its_last_step_is_no_result(self, tmp_path):
        run = har(
            *TINY,
            f"--workdir={tmp_path}",
            "--stage=pretrain",
            "--config.optimizer.learning_rate=1e37",
            "--config.pretrain.epochs=0.001",
        )
        assert run.returncode == 1
        assert "pretrain: losses are not finite after the last step" in run.stderr
        assert not (tmp_path / "pretrain" / "held_out.npz").exists()

    @pytest.mark.parametrize(
        ("flag", "message"),
        [
            ("data.noise.groups=((3,12),)", "config.data.noise.groups names class 12, which is no"),
            ("data.mean=0.5,0.5,0.5", "data.mean=(0.5, 0.5, 0.5) has 3 numbers, and images of dig"),
            ("pretrain.fraction=0.0001", "config.pretrain.fraction=0.0001 of 838 training exampl"),
        ],
    )
    def test_what_does_not_fit_the_data_is_told_before_anything_is_written(
        self, tmp_path, flag, message
    ):
        workdir = tmp_path / "new"
        run = har(*TINY, f"--workdir={workdir}", f"--config.{flag}")
        assert run.returncode == 1
        assert message in run.stderr
        assert len(run.stderr.splitlines()) == 1
        assert not workdir.exists()

    def test_a_flag_can_unset_what_the_file_sets(self, tmp_path):
        flags = [f"--config.data.noise.{key}=None" for key in ("groups", "rate")]
        only = ("--config.methods=('erm',)", f"--workdir={tmp_path}", "--stage=train")
        run = har(*TINY, "--config.data.noise.kind=none", *flags, *only)
        assert run.returncode == 0, run.stderr
        fingerprint = json.loads((tmp_path / "train" / "erm" / "stage.json").read_text())
        assert fingerprint["fingerprint"]["data.noise.groups"] is None

    @pytest.mark.slow
    def test_no_estimate_where_no_method_needs_one(self, tmp_path):
        plain = (*TINY, "--config.methods='uniform',", f"--workdir={tmp_path}")
        run = har(*plain)
        assert run.returncode == 0, run.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "report", "train"]
        assert "tau" not in run.stdout
        results = json.loads((tmp_path / "report" / "results.json").read_text())
        assert results["groups"][0]["tau"] is None
        assert results["groups"][0]["methods"]["uniform"]["strength"] == pytest.approx(0.1)
        refused = har(*plain, "--stage=estimate")
        assert refused.returncode == 1
        assert "--stage=estimate is not needed by any of config.methods" in refused.stderr

    @pytest.mark.slow
    def test_two_devices_make_the_same_run_but_for_batchnorm(self, tmp_path):
        smooth = (*TINY, "--config.model.norm=layer")
        runs = {count: tmp_path / str(count) for count in (1, 2)}
        for count, workdir in runs.items():
            run = har(*smooth, f"--workdir={workdir}", "--stage=pretrain", devices=count)
            assert run.returncode == 0, run.stderr
        one, two = (read_metrics(workdir / "pretrain/metrics.jsonl") for workdir in runs.values())
        for ours, theirs in zip(one, two, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-4)
        held_out = [read_arrays(workdir / "pretrain/held_out.npz") for workdir in runs.values()]
        np.testing.assert_allclose(held_out[0]["loss"], held_out[1]["loss"], rtol=1e-3)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("flag", "devices", "message"),
        [
            ("devices=3", 2, "config.devices=3 are more than the 2 of kind cpu that are here"),
            ("batch_size=64", 3, "config.batch_size=64 does not fall into equal parts for 3 devi"),
            ("microbatches=64", 2, "equal parts for 64 microbatches on each of 2 devices"),
        ],
    )
    def test_devices_that_do_not_fit(self, tmp_path, flag, devices, message):
        run = har(*TINY, f"--workdir={tmp_path}", f"--config.{flag}", devices=devices)
        assert run.returncode == 1
        assert message in run.stderr
        assert len(run.stderr.splitlines()) == 1

    def test_a_stage_without_the_one_before_is_refused(self, tmp_path):
        run = har(*TINY, f"--workdir={tmp_path}", "--stage=train")
        assert run.returncode == 1
        assert f"needs {tmp_path}/estimate, which is not complete" in run.stderr
        assert "--stage=estimate first" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to run: try --config=configs/digits.py, or --help"),
        (("--workdir=x",), "--config is missing"),
        (("--config=configs/digit.py",), "configs/digit.py"),
        ((TINY[0], "--config.data.noise.rat=1"), "did you mean config.data.noise.rate?"),
        ((TINY[0], "--config.seed=one"), "config.seed='one' has the wrong type: int needed"),
        ((TINY[0], "--config.data.imbalance.ratio=0.5"), "config.data.imbalance.ratio=0.5 is imp"),
        ((TINY[0], "--stage=tran"), "--stage=tran"),
        ((TINY[0], "--workdri=x"), "Unknown command line flag 'workdri'"),
        ((TINY[0], "train"), "'train' is not a flag"),
    ],
)
def test_mistakes_on_the_command_line_are_told_in_one_line(arguments, message):
    run = har(*arguments)
    assert run.returncode == 2
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert run.stdout == ""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("config.data.noise.knd = 'pairs'", "did you mean config.data.noise.kind?"),
        ("config.regularizer.strenght = 1.0", "did you mean config.regularizer.strength?"),
        ("config.seed = 'a'", "config.seed='a' has the wrong type: int needed"),
        ("1 / 0", "the config file fails: ZeroDivisionError: division by zero"),
        ("config = None", "get_config() returns a NoneType: return the ConfigDict"),
        ("config = config.to_dict()", "get_config() returns a dict: return the ConfigDict"),
    ],
)
def test_mistakes_in_a_config_file_are_told_in_one_line(tmp_path, body, message):
    path = tmp_path / "mine.py"
    path.write_text(
        "from har_jax import config as har_config\n"
        f"def get_config():\n    config = har_config.base()\n    {body}\n    return config\n"
    )
    run = har(f"--config={path}")
    assert run.returncode == 2
    assert message in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr


def test_help_says_how_to_run():
    run = har("--help")
    assert "python -m har_jax.main --config=configs/digits.py" in run.stdout
    assert "--workdir" in run.stdout


def test_importing_leaves_the_devices_alone():
    modules = sorted(
        ".".join(path.with_suffix("").relative_to(ROOT).parts).removesuffix(".__init__")
        for path in (ROOT / "har_jax").rglob("*.py")
    )
    program = (
        f"import importlib; [importlib.import_module(m) for m in {modules!r}]; "
        "from jax._src import xla_bridge; assert not xla_bridge.backends_are_initialized()"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=120)
