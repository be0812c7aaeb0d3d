"""What the machine around a job says of itself, wrongly or not at all."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SLURM = {
    "SLURM_JOB_ID": "1",
    "SLURM_STEP_NODELIST": "here",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
}


def har(workdir, *flags, **environment):
    command = [sys.executable, "-m", "har_jax.main", "--config=configs/digits.py"]
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


@pytest.mark.parametrize("platform", ["cuda", "foo", "cpu,foo"])
def test_a_platform_that_is_not_there_is_one_line(tmp_path, platform):
    run = har(tmp_path / "new", JAX_PLATFORMS=platform, CUDA_VISIBLE_DEVICES="")
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"har_jax: JAX_PLATFORMS={platform} cannot be opened (")
    assert "unset that variable" in line
    assert not (tmp_path / "new").exists()


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
