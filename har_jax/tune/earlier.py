"""What an earlier command chose in the same workdir, and what of it still holds."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any


def kept(
    file: pathlib.Path, terms: Mapping[str, Any], methods: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Of an earlier ``tuned.json`` the methods that a new one does not choose for again.

    Args:
      file: The earlier one; there need not be one.
      terms: What else is to be written in its place, by which choices are comparable.
      methods: What is to be said of each that was chosen for now.

    Returns:
      What was said of each of these methods, if it was tuned on the same terms, and remarks on what
      was tried before and is not written again.
    """
    if not file.exists():
        return {}, []
    before = json.loads(file.read_text())
    as_read = json.loads(json.dumps(terms))  # of which tuples are lists
    if others := [term for term in terms if before[term] != as_read[term]]:
        why = f"with other {' and '.join(others)}"
        return {}, [_lost(name, why) for name in before["methods"] if name not in methods]
    keys = {each["key"] for each in methods.values()}
    still, remarks = {}, []
    for name, each in before["methods"].items():
        if name in methods:
            remarks += _left_out(name, each, methods[name])
        elif each["key"] in keys:
            remarks.append(_lost(name, f"for the same config.{each['key']}"))
        else:
            still[name] = {"method": name} | each
    return still, remarks


def _lost(name: str, why: str) -> str:
    return (
        f"{name}: chosen before, {why}, and no longer in tuned.py: tune it again with the others, "
        "or in another --workdir"
    )


def _left_out(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What has to be said of values of a method that are not among those of today."""
    tried = [each["value"] for each in now["values"]]
    out = [f"{each['value']:g}" for each in before["values"] if each["value"] not in tried]
    if before["key"] != now["key"] or not out:
        return []
    return [
        f"{name}: {now['key'].rpartition('.')[2]} {', '.join(out)}: tried before, and not compared "
        "now: name all values, what is there is not run again"
    ]
