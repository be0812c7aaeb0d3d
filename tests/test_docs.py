"""What the documents say of the tests is so."""

import pathlib
import re

import pytest

from benchmarks import ages
from har_jax.config.schema import options_of_entry
from har_jax.methods import METHODS

TESTS = pathlib.Path(__file__).parent


def test_every_test_that_a_promise_names_exists():
    text = (TESTS.parent / "docs" / "reliability.md").read_text()
    named = re.findall(r"`(test_\w+\.py)(?:: ([\w, ]+))?`", text)
    assert len(named) > 50
    for file, parts in named:
        functions = re.findall(r"def (test_\w+)", (TESTS / file).read_text())
        for part in filter(None, parts.split(", ")):
            assert any(part in function for function in functions), f"{file}: {part}"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_described_with_its_options(name):
    text = (TESTS.parent / "docs" / "methods.md").read_text()
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    assert re.search(rf"^\| .*`{name}`.*\|", head, re.MULTILINE)
    (section,) = (each for each in sections if f"`{name}`" in each.splitlines()[0])
    entry = METHODS[name]
    for option in options_of_entry(entry) if entry.section is None else ():
        assert f"`method.{name}.{option}" in section


@pytest.mark.parametrize("path", ages.PAGES, ids=lambda path: path.name)
def test_every_table_says_at_which_commit_it_was_measured(path):
    of = ages.measured(path.read_text())
    assert of is not None
    assert re.fullmatch(r"[0-9a-f]{7,40}", of.commit)
    for other in of.paths:
        assert (ages.ROOT / other).exists()


def test_a_commit_of_the_same_bits_makes_no_table_older(monkeypatch):
    log = (
        "\x1eaaaaaaa Moves code\x1fMoves code\n\nBits: same\n"
        "\x1ebbbbbbb Another loss\x1fAnother loss\n\nWhich Bits: same it does not say\n"
    )
    monkeypatch.setattr(ages, "git", lambda *arguments: log)
    assert ages.changes_since(ages.Measured("ccccccc", ())) == ["bbbbbbb Another loss"]
