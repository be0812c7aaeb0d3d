"""What the machine around a job says of itself, wrongly or not at all."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.own_images import write_folder

ROOT = pathlib.Path(__file__).parent.parent
SLURM = {
    "SLURM_JOB_ID": "1",
    "SLURM_STEP_NODELIST": "here",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
}


def har(workdir, *flags, config="digits", **environment):
    command = [sys.executable, "-m", "har_jax.main", f"--config=configs/{config}.py"]
    around = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "OMPI_"))}
    return subprocess.run(
        [*command, f"--workdir={workdir}", *flags],
        cwd=ROOT,
        env={**around, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    "platform",
    ["foo", *(pytest.param(p, marks=pytest.mark.slow) for p in ("cuda", "cpu,foo"))],
)
def test_a_platform_that_is_not_there_is_one_line(tmp_path, platform):
    run = har(tmp_path / "new", JAX_PLATFORMS=platform, CUDA_VISIBLE_DEVICES="")
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"har_jax: JAX_PLATFORMS={platform} cannot be opened (")
    assert "unset that variable" in line
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "there is no SLURM_JOB_ID of Slurm and no OMPI_MCA_orte_hnp_uri of Open MPI"),
        (
            {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "2"},
            "of Slurm's variables there is SLURM_JOB_ID, SLURM_NTASKS and there is no "
            "SLURM_STEP_NODELIST, SLURM_PROCID, SLURM_LOCALID: start with srun",
        ),
        ({**SLURM, "SLURM_PROCID": "two"}, "SLURM_PROCID=two"),
        ({**SLURM, "SLURM_PROCID": "2"}, "SLURM_NTASKS=2, SLURM_PROCID=2"),
        (
            {"OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.96.0.1:34911"},
            "there is no OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK",
        ),
    ],
)
def test_a_scheduler_that_says_too_little_is_one_line(tmp_path, environment, message):
    run = har(tmp_path / "new", "--find_processes", **environment)
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert line.startswith("har_jax: --find_processes does not find out which process this is")
    assert message in line
    assert "--coordinator, --num_processes and --process_id" in line
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("source", ["folder", pytest.param("csv", marks=pytest.mark.slow)])
def test_a_locale_that_reads_names_wrongly_is_blamed_for_it(tmp_path, source):
    root = tmp_path / "images"
    write_folder(root, {"café": 2, "thé": 2})
    table = tmp_path / "table.csv"
    paths = sorted(path for path in root.rglob("*.*"))
    lines = [f"{path},{path.parent.name}" for path in paths]
    table.write_text("\n".join(["path,label", *lines]) + "\n", encoding="utf-8")
    where = f"--config.data.{'root' if source == 'folder' else 'table'}"
    flags = (f"{where}={root if source == 'folder' else table}", f"--config.data.source={source}")
    locale = {"PYTHONUTF8": "0", "LC_ALL": "C"}
    run = har(tmp_path / "new", *flags, config="folder", **locale)
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert "is UTF-8, and this process takes names of files for" in line
    assert "by its locale: set PYTHONUTF8=1" in line
    if source == "folder":
        os.rename(root / "café", root / "tea")
        os.rename(root / "thé", os.fsencode(root) + b"/\xff")
        run = har(tmp_path / "new", *flags, config="folder", **locale)
        assert "is not UTF-8: rename it" in run.stderr


def test_strict_promotion_and_a_narrow_network_exclude_each_other(tmp_path):
    strict = {"JAX_NUMPY_DTYPE_PROMOTION": "strict"}
    run = har(tmp_path, "--config.model.dtype=bfloat16", **strict)
    assert run.returncode == 2
    (line,) = run.stderr.splitlines()
    assert "config.model.dtype='bfloat16' and JAX_NUMPY_DTYPE_PROMOTION=strict exclude" in line


@pytest.mark.slow
def test_strict_promotion_fails_no_stage(tmp_path):
    flags = ("data.train_size=100", "model.widths=8,", "train.epochs=1", "pretrain.epochs=1")
    more = ("methods='har',", "reweighting.start_epoch=0.5", "on_nonfinite=skip")
    run = har(
        tmp_path,
        *(f"--config.{flag}" for flag in (*flags, *more)),
        JAX_NUMPY_DTYPE_PROMOTION="strict",
    )
    assert run.returncode == 0, run.stderr
