"""What was chosen, as a table, as JSON, and as a config."""

import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from har_jax.tune.candidates import Candidates
from har_jax.tune.choice import Choice


def summary(
    of: Candidates, choice: Choice, scores: np.ndarray, seeds: Sequence[int]
) -> dict[str, Any]:
    """What is to be said of a method.

    Args:
      of: What was tuned.
      choice: Of its values.
      scores: ``[V, S]``, shares; NaN where a run diverged.
      seeds: ``[S]``.

    Returns:
      ``method``, as a config names it, ``key``, ``chosen``, ``edge``, ``runs``, how many they were,
      and of every value ``value``, ``mean``, ``standard_error``, ``by_seed``, and ``failed``, the
      seeds without a score; None in place of NaN.
    """
    failed = np.isnan(scores)
    return {
        "method": of.method,
        "key": of.key,
        "chosen": of.values[choice.best],
        "edge": choice.edge,
        "runs": scores.size,
        "values": [
            {
                "value": value,
                "mean": float(choice.mean[row]),
                "standard_error": _known(choice.standard_error[row]),
                "by_seed": [_known(score) for score in scores[row]],
                "failed": [seeds[place] for place in np.flatnonzero(failed[row]).tolist()],
            }
            for row, value in enumerate(of.values)
        ],
    }


def table(methods: Mapping[str, Mapping[str, Any]]) -> str:
    """Means in percent with their standard errors, a row for each value; * is chosen.

    Args:
      methods: :func:`summary` of each.
    """
    values = sorted({each["value"] for told in methods.values() for each in told["values"]})
    heads = (f"{name} {told['key'].rpartition('.')[2]}" for name, told in methods.items())
    rows = [["value", *heads]]
    for value in values:
        rows.append([f"{value:g}", *(_cell(told, value) for told in methods.values())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def remarks(methods: Mapping[str, Mapping[str, Any]], *, chance: float | None) -> list[str]:
    """What has to be said beside the numbers: of runs without a score, of edges, and of guesses.

    Args:
      methods: :func:`summary` of each.
      chance: What a model scores that always names the same class; None where that depends on it.
    """
    said = []
    for name, told in methods.items():
        option = told["key"].rpartition(".")[2]
        for each in told["values"]:
            if each["failed"]:
                failed = ", ".join(map(str, each["failed"]))
                said.append(
                    f"{name}, {option} {each['value']:g}: seed {failed} diverged, or could not be "
                    "trained, and counts as 0"
                )
        if chance is not None and max(each["mean"] for each in told["values"]) <= chance:
            said.append(
                f"{name}: no value scores above {100 * chance:.1f}, as one who always names the "
                "same class does: train longer, or with another learning rate"
            )
        if len(means := {each["mean"] for each in told["values"]}) == 1 < len(told["values"]):
            said.append(
                f"{name}: all values of {option} score {100 * means.pop():.1f}, and the least is "
                "taken: train longer, hold more out, or try values that are further apart"
            )
        elif told["edge"]:
            chosen = told["chosen"]
            further = chosen * 3 if told["edge"] == "greatest" else chosen / 3
            said.append(
                f"{name}: {option} {chosen:g} is the {told['edge']} that was tried, and a better "
                f"one may lie beyond: add {further:.1g}; what is there is not run again"
            )
    return said


def config_file(
    file: pathlib.Path, changes: Mapping[str, Any], methods: Mapping[str, Mapping[str, Any]]
) -> str:
    """The text of a config file: another one's config, with what was given and what was chosen.

    Args:
      file: The other one.
      changes: What a command line gave, by dotted key.
      methods: :func:`summary` of each.
    """
    chosen = {told["key"]: told for told in methods.values()}
    given = {key: value for key, value in changes.items() if key not in chosen}
    tried = lambda told: ", ".join(f"{each['value']:g}" for each in told["values"])
    lines = [
        '"""Another config with what har_jax.tune chose on held-out data; tuned.json says how."""',
        "",
        "import pathlib",
        "",
        "from har_jax.config import files",
        "",
        "",
        "def get_config():",
        f"    config = files.load(pathlib.Path({str(file.resolve())!r}))",
        *(f"    config.{key} = {value!r}" for key, value in given.items()),
        *(
            f"    config.{key} = {told['chosen']!r}  # of {tried(told)}"
            for key, told in chosen.items()
        ),
        "    return config",
        "",
    ]
    return "\n".join(lines)


def command(file: pathlib.Path, methods: Sequence[str], wanted: Sequence[str]) -> str:
    """What trains these methods with a config that names others.

    Args:
      file: The config.
      methods: Those that it names.
      wanted: Those that are to be trained, all of its own among them.
    """
    named = ",".join(f'"{name}"' for name in wanted)
    naming = f" --config.methods='({named})'" if len(wanted) > len(methods) else ""
    return f"python -m har_jax.main --config={shlex.quote(str(file))}{naming}"


def _cell(told: Mapping[str, Any], value: float) -> str:
    each = next((each for each in told["values"] if each["value"] == value), None)
    if each is None:
        return ""
    error = "" if each["standard_error"] is None else f" ± {100 * each['standard_error']:.1f}"
    diverged = len(each["failed"]) == len(each["by_seed"])
    number = "diverged" if diverged else f"{100 * each['mean']:.1f}{error}"
    return number + (" *" if value == told["chosen"] else "")


def _known(number: float) -> float | None:
    return None if np.isnan(number) else float(number)
