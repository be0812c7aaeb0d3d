"""Every block of code in the documents runs as it stands, or says in the page's source why not."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.snippets import snippets

ROOT = pathlib.Path(__file__).parent.parent
# Of measured pages the commands took hours; each says how long, on what, and what came of them.
PAGES = {
    str(path.relative_to(ROOT)): snippets(path.read_text())
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md")))
}
RUN = ("python", "sh")
# What is installed is there, and each command of the package gets the flags of its block.
PRELUDE = """set -eu
pip() { true; }
python() { command "$PYTHON" "$@" ${ADD:+"${ADD[@]}"}; }
"""


def to_run(page):
    return [each for each in PAGES[page] if each.language in RUN and not each.skip]


def trains(page):
    return any(each.language == "sh" for each in to_run(page))


def shell(snippet, folder):
    """Runs a block as in a repository, in a folder of its own."""
    flags = f"ADD=({snippet.add})\n" if snippet.add else "ADD=()\n"
    environment = os.environ | {
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        ["bash", "-c", PRELUDE + flags + snippet.code],
        cwd=folder, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"line {snippet.line}: {snippet.code}\n{done.stderr[-3000:]}"


@pytest.mark.filterwarnings("ignore:of what was held out")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if trains(page) else ())
        for page in PAGES
        if to_run(page)
    ],
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("configs", "launch", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    names = {"__name__": "__main__", "np": np, "pathlib": pathlib}
    for snippet in to_run(page):
        if snippet.file:
            (tmp_path / snippet.file).write_text(snippet.code)
        elif snippet.language == "sh":
            shell(snippet, tmp_path)
        else:
            code = "\n" * (snippet.line - 1) + snippet.code
            exec(compile(code, ROOT / page, "exec"), names)


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_says_why(page):
    for snippet in PAGES[page]:
        assert snippet.skip is None or len(snippet.skip) > 10, snippet
        assert not (snippet.add and snippet.language != "sh"), snippet


def test_what_comments_say_goes_with_the_next_block():
    text = "<!-- add: --a=1 -->\n```sh\nx\n```\n<!-- setup:\ny = 1\n-->\n~~~python\nz\n~~~\n"
    found = snippets(text)
    assert [each[1:3] for each in found] == [
        ("sh", "x\n"),
        ("python", "\ny = 1"),
        ("python", "z\n"),
    ]
    assert [each.add for each in found] == ["--a=1", "", ""]
    assert found[2].line == 9
    with pytest.raises(ValueError, match="of no block"):
        snippets("<!-- skip: why -->\nText.\n```sh\nx\n```\n")
