"""What the documents say of the tests is so."""

import pathlib
import re

TESTS = pathlib.Path(__file__).parent


def test_every_test_that_a_promise_names_exists():
    text = (TESTS.parent / "docs" / "reliability.md").read_text()
    named = re.findall(r"`(test_\w+\.py)(?:: ([\w, ]+))?`", text)
    assert len(named) > 50
    for file, parts in named:
        functions = re.findall(r"def (test_\w+)", (TESTS / file).read_text())
        for part in filter(None, parts.split(", ")):
            assert any(part in function for function in functions), f"{file}: {part}"
