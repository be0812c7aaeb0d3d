"""Nothing that is printed fails a command, and nothing that it ends with is longer than a line."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PROGRAM = """
import sys, warnings
from har_jax.system import terminal
terminal.guard_output()
for _ in range(3):
    print("1.0 \\u00b1 0.1 \\udcff", flush=True)
print("\\u03c4", file=sys.stderr)
warnings.warn("\\u03bb \\udcff")
open(sys.argv[1], "w").write("done")
terminal.stop("the end \\u00b1", 3)
"""


def start(path, **streams):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", PROGRAM, str(path)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **streams)


def test_what_an_encoding_lacks_is_written_with_backslashes(tmp_path):
    process = start(tmp_path / "file", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, said = process.communicate()
    assert process.returncode == 3
    assert out.splitlines() == [r"1.0 \xb1 0.1 \udcff"] * 3
    assert said.splitlines()[:2] == [r"\u03c4", r"har_jax: warning: \u03bb \udcff"]
    assert said.splitlines()[-1] == r"har_jax: the end \xb1"


@pytest.mark.parametrize("both", [False, True])
def test_a_program_goes_on_that_nobody_listens_to(tmp_path, both):
    reader, writer = os.pipe()
    os.close(reader)
    stderr = subprocess.STDOUT if both else subprocess.PIPE
    process = start(tmp_path / "file", stdout=writer, stderr=stderr)
    os.close(writer)
    _, said = process.communicate()
    assert process.returncode == 3
    assert (tmp_path / "file").read_text() == "done"
    if not both:
        first, *_, last = said.splitlines()
        assert first == (
            "har_jax: warning: standard output is lost (Broken pipe): the run goes on without"
        )
        assert last == r"har_jax: the end \xb1"
        assert said.count("is lost") == 1
        assert "BrokenPipe" not in said


def test_a_program_goes_on_whose_log_has_no_room(tmp_path):
    with open("/dev/full", "w") as full:
        process = start(tmp_path / "file", stdout=full, stderr=subprocess.PIPE)
        _, said = process.communicate()
    assert process.returncode == 3
    assert "standard output is lost (No space left on device)" in said


def test_a_program_goes_on_without_streams(tmp_path):
    command = 'exec "$0" -c "$1" "$2" >&- 2>&-'
    ended = subprocess.run(
        ["bash", "-c", command, sys.executable, PROGRAM, str(tmp_path / "file")],
        cwd=ROOT,
        check=False,
    )
    assert ended.returncode == 3
    assert (tmp_path / "file").read_text() == "done"
