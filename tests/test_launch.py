"""Launchers are programs of Bash and YAML that start the main job on every host."""

import os
import pathlib
import subprocess

import pytest
import yaml

LAUNCH = pathlib.Path(__file__).parent.parent / "launch"
SCRIPTS = sorted(path.name for path in LAUNCH.glob("*.sh"))


def dry_run(script, *arguments, **environment):
    return subprocess.run(
        [LAUNCH / script, *arguments],
        env={**os.environ, "DRY_RUN": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_without_arguments_they_say_how_to_call_them(script):
    assert subprocess.run(["bash", "-n", LAUNCH / script], check=False).returncode == 0
    told = dry_run(script)
    assert told.returncode == 2
    assert f"launch/{script}" in told.stderr
    assert told.stdout == ""


def test_local_processes_are_numbered_and_share_a_coordinator():
    lines = dry_run("local.sh", "2", "--config=a.py", "--workdir=b").stdout.splitlines()
    common = "python -m har_jax.main --config=a.py --workdir=b --coordinator=localhost:12321"
    assert lines == [f"{common} --num_processes=2 --process_id={number}" for number in (1, 0)]


def test_slurm_starts_one_process_a_node_that_finds_the_others():
    assert dry_run("slurm.sh", "--config=a.py").stdout == (
        "srun --kill-on-bad-exit=1 python -m har_jax.main --find_processes --config=a.py\n"
    )


def test_a_pod_gets_the_command_quoted_for_its_shells():
    flag = """--config.methods=('erm', "har")"""
    line = dry_run("tpu_pod.sh", flag, TPU="x", ZONE="y").stdout
    by_gcloud = subprocess.run(
        ["bash", "-c", f'args=({line}); printf %s "${{args[-1]}}"'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.removeprefix("--command=")
    on_host = by_gcloud.replace("cd har_jax && .venv/bin/python -m har_jax.main", "printf '%s|'")
    arguments = subprocess.run(
        ["bash", "-c", on_host], capture_output=True, text=True, check=True
    ).stdout.split("|")
    assert arguments == ["--find_processes", flag, ""]


def test_the_jobset_starts_one_pod_a_host():
    jobset = yaml.safe_load((LAUNCH / "gke_jobset.yaml").read_text())
    assert (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    (job,) = jobset["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    assert spec["parallelism"] == spec["completions"] == 4
    (container,) = spec["template"]["spec"]["containers"]
    assert container["command"][:4] == ["python", "-m", "har_jax.main", "--find_processes"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
