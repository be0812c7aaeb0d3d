"""What docs/own_images.md says works as it is written."""

import csv
import os
import pathlib
import re
import subprocess
import sys

import pytest
from sklearn.datasets import load_digits

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "own_images.md"


@pytest.mark.slow
def test_the_tutorial_from_wrong_labels_to_corrected_ones(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(PAGE.parent.parent)}
    environment.pop("JAX_DISABLE_MOST_OPTIMIZATIONS", None)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert [language for language, _ in blocks] == ["python", "python", "sh", "python", "sh"]
    for language, code in blocks:
        if code.startswith("# mine.py"):
            (tmp_path / "mine.py").write_text(code)
            continue
        command = [sys.executable, "-c", code] if language == "python" else ["sh", "-ec", code]
        environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
    with (tmp_path / "corrections.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert f"{len(rows)} labels are as corrections.csv has them" in done.stdout
    truth = load_digits().target
    right = [str(truth[int(row["id"][-7:-4])]) == row["suggestion"] for row in rows]
    assert len(right) >= 10
    assert sum(right) > len(right) / 2
