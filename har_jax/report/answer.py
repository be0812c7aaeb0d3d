"""The answer first: what the last method bought over the first, in one sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from har_jax.report import neighbourhoods
from har_jax.report.paired import EXAMPLES, Difference, over_examples


def gains(
    right: Mapping[str, Bool[np.ndarray, " t"]],
    groups: Int[np.ndarray, " t"],
    parts: Mapping[str, Sequence[int]],
) -> dict[str, dict[str, Difference]]:
    """By method but the first, by part of the groups: what it gained over the first.

    Args:
      right: By method, the test examples that it gets right.
      groups: Whose they are.
      parts: By name, the groups that are averaged over, first all of them. Another one that has
        all is left out, and so is one without test examples.
    """
    first, *others = right
    every = next(iter(parts))
    distinct = {
        part: members
        for part, members in parts.items()
        if part == every or set(members) != set(parts[every])
    }
    return {
        method: {
            part: found
            for part, members in distinct.items()
            if (found := over_examples(right[first], right[method], groups, members)) is not None
        }
        for method in others
    }


def sentence(
    first: str,
    last: str,
    differences: Mapping[str, Difference],
    *,
    is_needed: bool | None = None,
    test: str = EXAMPLES,
) -> str:
    """What the last method bought over the first, where, and how sure that is.

    Args:
      first: The method that it is compared with.
      last: The method; the first one, where there is no other.
      differences: By part of the groups. A part whose interval has nothing in it is one of which
        it is said that no difference shows.
      is_needed: Whether the groups differ by more than chance in what the last method goes by;
        None where that is not known, or the method goes by nothing.
      test: What the test examples are called.

    Returns:
      One sentence, with a full stop.
    """
    if first == last:
        return f"One method was trained, {first}: there is nothing to compare it with."
    if not differences:
        return f"There are no test examples to say by what {last} bought over {first}."
    places: dict[Difference, list[str]] = {}  # parts of the same groups are one
    for part, found in differences.items():
        places.setdefault(found, []).append(part)
    told = [(found, _about(parts)) for found, parts in places.items()]
    (found, where), *_ = told
    where_from = (
        f"over the {test} of one seed" if found.over == EXAMPLES else f"over {found.n} seeds"
    )
    if found.low is None:
        return (
            f"{last} {_verb(found)} {_size(found)} points of accuracy over {first} {where}, at one "
            "seed, which does not say how sure that is."
        )
    if not any(found.shows for found, _ in told):
        nothing = f"no difference between {last} and {first} shows"
        if is_needed is False:
            nothing = (
                "nothing was to be gained by adapting, since the groups' noise and frequency "
                f"differ by no more than chance, and {nothing}"
            )
        return (
            f"{nothing[0].upper()}{nothing[1:]}: it is {_points(found)} of accuracy {where} "
            f"({_interval(found)} {where_from})."
        )
    clauses = _clauses([each for each in told if each[0].shows], first, where_from)
    rest = ""
    if hidden := [f"{where} ({_points(found)})" for found, where in told if not found.shows]:
        rest = f"; no difference shows {_listed(hidden)}"
    if is_needed is False:
        rest += (
            "; but the groups' noise and frequency differ by no more than chance, so that "
            "regularizing all alike may do as well"
        )
    return f"{last} {_listed(clauses)}{rest}."


def _clauses(shown: Sequence[tuple[Difference, str]], first: str, where_from: str) -> list[str]:
    """What was gained where, then what was lost; what goes for all is said once, first."""
    clauses: list[str] = []
    verb = ""
    for found, where in sorted(shown, key=lambda each: each[0].mean < 0):
        begin = "" if _verb(found) == verb else f"{_verb(found)} "
        verb = _verb(found)
        against, over = "", ""
        if not clauses:
            against = f" points of accuracy {'over' if found.mean > 0 else 'against'} {first}"
            over = f" {where_from}"
        clauses.append(f"{begin}{_size(found)}{against} {where} ({_interval(found)}{over})")
    return clauses


def answer_of(results: Mapping[str, Any]) -> str:
    """The sentence of a run of one seed.

    Args:
      results: With ``config``, ``means``, ``groups``, ``neighbourhoods``, ``suspicion``, and
        ``gains`` as :func:`gains` has them.
    """
    first, *others = results["means"]
    last = others[-1] if others else first
    held_out = results["config"]["data.evaluate_on"] == "validation"
    return sentence(
        first,
        last,
        {part: Difference(**found) for part, found in results["gains"].get(last, {}).items()},
        is_needed=_is_needed(results, last),
        test="held-out training examples" if held_out else EXAMPLES,
    )


def _is_needed(results: Mapping[str, Any], method: str) -> bool | None:
    """Whether there is anything to adapt to, for a method that adapts."""
    strengths = [group["methods"][method]["strength"] for group in results["groups"]]
    adapts = len({strength for strength in strengths if strength is not None}) > 1
    return neighbourhoods.is_needed(results) if adapts else None


def _verb(found: Difference) -> str:
    return "gained" if found.mean >= 0 else "lost"


def _size(found: Difference) -> str:
    return f"{abs(100 * found.mean):.1f}"


def _about(parts: Sequence[str]) -> str:
    """Where: parts of the groups, and shots, of the same groups."""
    if "all" in parts:
        return "on average over all groups"
    shots = all(part.endswith("-shot") for part in parts)
    return f"on {_listed(parts)} {'classes' if shots else 'groups'}"


def _points(found: Difference) -> str:
    return f"{100 * found.mean:+z.1f} points"


def interval_of(found: Mapping[str, Any]) -> str:
    """The interval of a difference by field, in points."""
    return _interval(Difference(**found))


def _interval(found: Difference) -> str:
    assert found.low is not None
    assert found.high is not None
    return f"95% interval {100 * found.low:+z.1f} to {100 * found.high:+z.1f}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
