"""The architecture that docs/design.md draws: imports point one way, and a file fits in a head."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "har_jax"
FILES = sorted(PACKAGE.glob("**/*.py"))


def parts():
    """The parts of the package as the table of docs/design.md has them, from the lowest on."""
    text = (ROOT / "docs" / "design.md").read_text()
    table = re.search(r"\| part \|.*?(?=\n\n)", text, re.DOTALL)[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [[name.rstrip("/").removesuffix(".py") for name in re.findall(r"`([\w./]+)`", row)]
            for row in rows]  # fmt: skip


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """The parts of the package that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = node.module == "har_jax"
            names = [f"har_jax.{a.name}" for a in node.names] if whole else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith("har_jax."))


def test_every_part_has_its_place():
    known = {name for row in parts() for name in row}
    assert {part_of(path) for path in FILES} - {"__init__", "__main__"} == known


def test_imports_point_one_way():
    level = {name: number for number, row in enumerate(parts()) for name in row}
    wrong = [
        f"{path.relative_to(ROOT)} imports {other}"
        for path in FILES
        if (own := part_of(path)) in level
        for other in imported(path)
        if level.get(other, -1) > level[own]
    ]
    assert not wrong


def test_no_file_is_longer_than_a_head_can_hold():
    assert {path: n for path in FILES if (n := len(path.read_text().splitlines())) > 300} == {}
