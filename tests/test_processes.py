"""Two processes make the run of one, end together, and go on."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from har_jax.system.files import read_arrays
from har_jax.train.metrics import read_metrics

ROOT = pathlib.Path(__file__).parent.parent
JOB = (
    "--config=configs/digits.py",
    "--config.pretrain.folds=None",
    "--config.model.widths=8,",
    "--config.model.norm=layer",
    "--config.pretrain.epochs=60",
    "--config.log_every=20",
    "--config.checkpoint_every=20",
    "--stage=pretrain",
    "--peer_timeout=60",
)


def start(workdir, log, port=None, number=None, count=2):
    flags = [*JOB, f"--workdir={workdir}"]
    if port is not None:
        flags += [f"--coordinator=localhost:{port}", f"--num_processes={count}"]
        flags += [f"--process_id={number}"]
    with log.open("w") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "har_jax.main", *flags],
            cwd=ROOT,
            env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def wait_for(log, pattern, process):
    while not (found := re.findall(pattern, log.read_text())):
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    return found[-1]


def ends_of(processes, timeout=60):
    return [process.wait(timeout=timeout) for process in processes]


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]


@pytest.mark.slow
def test_two_processes_are_interrupted_killed_and_make_the_run_of_one(tmp_path, port):
    workdir, logs = tmp_path / "two", [tmp_path / name for name in ("0.log", "1.log")]
    begin = lambda: [start(workdir, log, port, number) for number, log in enumerate(logs)]

    pair = begin()
    wait_for(logs[0], r"step 40/393", pair[0])
    for process in pair:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    assert ends_of(pair) == [143, 143]
    saved = int(wait_for(logs[0], r"saved after step (\d+) of 393", pair[0]))
    assert sorted(int(path.name) for path in workdir.glob("pretrain/checkpoints/*"))[-1] == saved

    pair = begin()
    assert int(wait_for(logs[0], r"goes on from step (\d+)", pair[0])) == saved
    wait_for(logs[0], r"step (?!40)\d+/393", pair[0])
    pair[1].kill()
    begun = time.monotonic()
    assert ends_of(pair) == [1, -9]
    assert time.monotonic() - begun < 45
    assert "goes on from the" in logs[0].read_text().splitlines()[-1]

    assert ends_of(begin(), timeout=100) == [0, 0]
    assert "step" not in logs[1].read_text()
    one = tmp_path / "one"
    assert ends_of([start(one, tmp_path / "one.log")]) == [0]
    runs = [read_metrics(folder / "pretrain" / "metrics.jsonl") for folder in (one, workdir)]
    assert runs[0][0] == pytest.approx(runs[1][0], rel=1e-6)  # the mean of 20 steps
    for ours, theirs in zip(*runs, strict=True):  # in float32, ReLUs come to flip
        assert ours == pytest.approx(theirs, rel=3e-2)
    held_out = [read_arrays(folder / "pretrain" / "held_out.npz") for folder in (one, workdir)]
    np.testing.assert_array_equal(held_out[0]["index"], held_out[1]["index"])
    assert held_out[0]["loss"].mean() == pytest.approx(held_out[1]["loss"].mean(), rel=3e-2)
    assert json.loads((workdir / "pretrain" / "stage.json").read_text())["complete"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, "of 3 processes, 1, 2 did not come to port .* within 2 s: start them, with this host"),
        (2, "process 0 at localhost:.* did not answer within 2 s, or gave up waiting for others"),
    ],
)
def test_processes_that_are_missing_are_named(tmp_path, port, number, message, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "JOB", (*JOB, "--peer_timeout=2"))
    log = tmp_path / "log"
    begun = time.monotonic()
    assert ends_of([start(tmp_path / "run", log, port, number, count=3)]) == [1]
    assert time.monotonic() - begun < 20
    (line,) = log.read_text().splitlines()
    assert re.search(message, line)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_processes_that_differ_do_not_begin(tmp_path, port):
    logs = [tmp_path / name for name in ("0.log", "1.log")]
    stranger = socket.socket()
    pair = [start(tmp_path / "a", logs[0], port, 0)]
    while stranger.connect_ex(("localhost", port)):
        time.sleep(0.05)  # one that connects, and says nothing
    pair.append(start(tmp_path / "b", logs[1], port, 1))
    with stranger:
        assert ends_of(pair) == [1, 1]
    for log in logs:
        assert "process 1 has another config, other data or another --workdir" in log.read_text()
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--num_processes=2",), "a run of several processes needs --coordinator, --num_processes"),
        (
            ("--coordinator=a", "--num_processes=2", "--process_id=0"),
            "--coordinator=a must be HOST",
        ),
        (
            ("--coordinator=a:1", "--num_processes=2", "--process_id=2"),
            "--process_id=2 must be bel",
        ),
    ],
)
def test_flags_that_do_not_fit_together(flags, message):
    command = [sys.executable, "-m", "har_jax.main", *JOB, *flags]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
