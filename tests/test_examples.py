"""The scripts of examples/ run as they are, and HAR gains there."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["linen_loop.py", "nnx_loop.py"])
def test_an_example_runs_and_gains(name):
    paths = os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plain, har = map(float, re.findall(r"test accuracy (\S+)", done.stdout))
    assert har > plain + 0.01
