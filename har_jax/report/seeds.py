"""Methods over several seeds, or of several runs: means, standard errors and paired gains."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from har_jax.report.answer import sentence
from har_jax.report.comparison import Column, percent
from har_jax.report.long_tail import SHOTS, new_shots
from har_jax.report.paired import Difference, over_seeds, spread
from har_jax.report.selection import csv_of
from har_jax.report.table import lay_out

Accuracies = Mapping[str, Mapping[int, Mapping[str, float]]]
"""By label, by seed, by part of the groups: the mean accuracy, a share."""


def shares_of(results: Mapping[str, Any], method: str, *, shots: bool = False) -> dict[str, float]:
    """The accuracies of a method by part of the groups, of those that have test examples.

    Args:
      results: Of one run.
      method: One of its methods.
      shots: Whether to tell of the classes of each shot too, even where groups are these.
    """
    shares = {part: mean["test_accuracy"] for part, mean in results["means"][method].items()}
    if "class_means" in results:
        told = SHOTS if shots else new_shots(results)
        shares |= {f"{shot}-shot": results["class_means"][method][shot] for shot in told}
    return {part: share for part, share in shares.items() if share is not None}


def parts_of(accuracies: Accuracies) -> list[str]:
    """What all have, in their order; clean groups only where these are not all."""
    everything = [shares for of_seed in accuracies.values() for shares in of_seed.values()]
    found = [part for part in everything[0] if all(part in shares for shares in everything)]
    is_all = all(shares.get("clean") == shares.get("all") for shares in everything)
    return [part for part in found if part != "clean" or not is_all]


def side_by_side(
    accuracies: Accuracies,
    *,
    first: str,
    paired: Mapping[str, Sequence[int]] | None = None,
    alone: Mapping[str, Mapping[str, Difference]] | None = None,
) -> dict[str, Any]:
    """The numbers of several seeds, for a file.

    Args:
      accuracies: Of at least one seed each.
      first: The label that gains are over.
      paired: By label, the seeds at which it can be paired with the first; those that both have,
        where it does not say.
      alone: By label, by part, the difference over test examples, for labels that have only one
        seed in common with the first.

    Returns:
      ``first``; ``parts``; ``rows``, by label: its ``seeds`` and, by part, ``mean``,
      ``standard_error`` and ``gain``, a :class:`~har_jax.report.paired.Difference` by field, or
      None; and ``by_seed``, what was given.
    """
    parts, rows = parts_of(accuracies), {}
    for label, of_seed in accuracies.items():
        common = [seed for seed in of_seed if seed in accuracies[first]]
        seeds = common if paired is None else list(paired.get(label, common))
        told = {}
        for part in parts:
            before = [accuracies[first][seed][part] for seed in seeds]
            after = [of_seed[seed][part] for seed in seeds]
            gain = None if label == first else over_seeds(before, after)
            if gain is not None and gain.n == 1 and alone is not None:
                gain = alone.get(label, {}).get(part, gain)
            told[part] = {
                **spread([shares[part] for shares in of_seed.values()])._asdict(),
                "gain": None if gain is None else gain._asdict(),
            }
        rows[label] = {"seeds": list(of_seed), "parts": told}
    return {"first": first, "parts": parts, "rows": rows, "by_seed": accuracies}


def answer(numbers: Mapping[str, Any], *, is_needed: bool | None = None) -> str:
    """What the last label gained over the first, in a sentence.

    Args:
      numbers: As :func:`side_by_side` has them.
      is_needed: As :func:`har_jax.report.answer.sentence` has it.
    """
    last = list(numbers["rows"])[-1]
    gains = {part: of["gain"] for part, of in numbers["rows"][last]["parts"].items()}
    found = {part: Difference(**gain) for part, gain in gains.items() if gain is not None}
    if not found and last != numbers["first"]:
        return f"{last} and {numbers['first']} have no seed and test set in common to compare them."
    return sentence(numbers["first"], last, found, is_needed=is_needed)


def columns(numbers: Mapping[str, Any]) -> list[Column]:
    """A row for each label: accuracies in percent, gains in points, with their intervals."""
    rows = numbers["rows"]
    found = [Column("method", list(rows))]
    found.append(Column("seeds", [str(len(row["seeds"])) for row in rows.values()]))
    for part in numbers["parts"]:
        of = [row["parts"][part] for row in rows.values()]
        best = max(each["mean"] for each in of)
        found += [
            Column(
                part,
                [accuracy(each) for each in of],
                [place for place, each in enumerate(of) if percent(each["mean"]) == percent(best)],
            ),
            Column(f"gain {part}", [gain_of(each["gain"]) for each in of]),
            Column("95% interval", [interval_of(each["gain"]) for each in of]),
        ]
    return found


def format_numbers(numbers: Mapping[str, Any]) -> str:
    """Lines for a terminal: a row for each part and label."""
    head = ["groups", "method", "seeds", "accuracy", "gain", "95% interval"]
    rows = [
        [
            part,
            label,
            str(len(row["seeds"])),
            accuracy(row["parts"][part]),
            gain_of(row["parts"][part]["gain"]),
            interval_of(row["parts"][part]["gain"]),
        ]
        for part in numbers["parts"]
        for label, row in numbers["rows"].items()
    ]
    said = (
        f"mean accuracy of groups in percent, and gain over {numbers['first']} in points; "
        "\N{PLUS-MINUS SIGN}: standard error"
    )
    return "\n".join([*lay_out(head, rows, len(rows)), said])


def as_csv(numbers: Mapping[str, Any]) -> str:
    """All of it, a line for each label and part; empty for unknown."""
    lines = []
    for label, row in numbers["rows"].items():
        for part, of in row["parts"].items():
            gain = of["gain"] or dict.fromkeys(Difference._fields)
            lines.append(
                {
                    "method": label,
                    "groups": part,
                    "seeds": len(row["seeds"]),
                    "accuracy": of["mean"],
                    "accuracy_standard_error": of["standard_error"],
                    **{f"gain_{key}": value for key, value in gain.items()},
                }
            )
    return csv_of(lines)


def by_seed(numbers: Mapping[str, Any]) -> Iterator[list[str]]:
    """A head, and a row for each seed: the accuracies of each label, by part, in percent."""
    accuracies, parts = numbers["by_seed"], numbers["parts"]
    yield ["seed", *accuracies]
    for seed in dict.fromkeys(seed for of_seed in accuracies.values() for seed in of_seed):
        cells = (
            " / ".join(percent(of[seed][part]) for part in parts) if seed in of else "-"
            for of in accuracies.values()
        )
        yield [str(seed), *cells]


def accuracy(of: Mapping[str, Any], *, digits: int = 1) -> str:
    """The mean accuracy of a part in percent, with its standard error over seeds."""
    return _with_error(f"{100 * of['mean']:.{digits}f}", of["standard_error"], digits)


def gain_of(gain: Mapping[str, Any] | None, *, digits: int = 1) -> str:
    """A gain in points, with its standard error."""
    if gain is None:
        return "-"
    return _with_error(f"{100 * gain['mean']:+z.{digits}f}", gain["standard_error"], digits)


def interval_of(gain: Mapping[str, Any] | None) -> str:
    """Its interval, and what that is over, where this is not the seeds."""
    if gain is None or gain["low"] is None:
        return "-"
    over = "" if gain["over"] == "seeds" else f" ({gain['over']})"
    return f"{100 * gain['low']:+z.1f} to {100 * gain['high']:+z.1f}{over}"


def _with_error(number: str, standard_error: float | None, digits: int) -> str:
    if standard_error is None:
        return number
    return f"{number} \N{PLUS-MINUS SIGN} {100 * standard_error:.{digits}f}"
