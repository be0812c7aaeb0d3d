"""The scripts of examples/ run as they are: HAR gains, and every framework learns."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def printed(name, *arguments):
    paths = os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linen_loop.py", "nnx_loop.py"])
def test_an_example_runs_and_gains(name):
    plain, har = map(float, re.findall(r"test accuracy (\S+)", printed(name)))
    assert har > plain + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["equinox", "haiku"])
def test_an_example_of_another_framework_is_short_and_learns(framework):
    pytest.importorskip(framework, reason=f"{framework} is not installed: pip install -e '.[test]'")
    name = f"{framework}_tap.py"
    assert sum(map(bool, (EXAMPLES / name).read_text().splitlines())) < 60
    assert float(re.fullmatch(r"test accuracy: (\S+)\n", printed(name))[1]) > 0.8


@pytest.mark.slow
def test_regression_runs_and_gains():
    told = printed("regression.py", "--seeds=2")
    means = [float(mean) for mean in re.findall(r"mean (\S+)$", told, re.MULTILINE)]
    assert len(means) == 8
    for plain, _, _, har in (means[:4], means[4:]):
        assert har < 0.95 * plain
