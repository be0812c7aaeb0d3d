"""The answer first: what the last method bought over the first, in one sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from har_jax.report.paired import EXAMPLES, Difference, over_examples

_ABOUT = {
    "all": "on average over all groups",
    "noisy": "on noisy groups",
    "rare": "on rare groups",
    "clean": "on clean groups",
}


def gains(
    right: Mapping[str, Bool[np.ndarray, " t"]],
    groups: Int[np.ndarray, " t"],
    parts: Mapping[str, Sequence[int]],
) -> dict[str, dict[str, Difference]]:
    """By method but the first, by part of the groups: what it gained over the first.

    Args:
      right: By method, the test examples that it gets right.
      groups: Whose they are.
      parts: By name, the groups that are averaged over. One that has the same as an earlier one is
        left out, and so is one without test examples.
    """
    first, *others = right
    distinct = {
        part: members
        for place, (part, members) in enumerate(parts.items())
        if set(members) not in map(set, list(parts.values())[:place])
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
    shown = {part: found for part, found in differences.items() if found.shows}
    hidden = {part: found for part, found in differences.items() if not found.shows}
    some = next(iter(differences.values()))
    where = f"of {some.n} seeds" if some.over != EXAMPLES else f"over the {test} of one seed"
    if some.low is None:
        part, found = next(iter(differences.items()))
        return (
            f"{last} {_verb(found.mean)} {abs(100 * found.mean):.1f} points of accuracy over "
            f"{first} {_about(part)}, at one seed, which does not say how sure that is."
        )
    if not shown:
        part, found = next(iter(hidden.items()))
        nothing = f"no difference between {last} and {first} shows"
        if is_needed is False:
            nothing = (
                "nothing was to be gained by adapting, since the groups' noise and frequency "
                f"differ by no more than chance, and {nothing}"
            )
        return (
            f"{nothing[0].upper()}{nothing[1:]}: it is {_points(found)} of accuracy {_about(part)} "
            f"({_interval(found)} {where})."
        )
    told: list[str] = []
    verb = ""
    for part, found in sorted(shown.items(), key=lambda item: item[1].mean < 0):
        own = _verb(found.mean)
        begin = "" if own == verb else f"{own} "
        unit = "" if told else " points of accuracy"
        against = "" if told else f" over {first}" if found.mean > 0 else f" against {first}"
        more = "" if told else f" {where}"
        number = f"{abs(100 * found.mean):.1f}{unit}{against} {_about(part)}"
        told.append(f"{begin}{number} ({_interval(found)}{more})")
        verb = own
    rest = ""
    if hidden:
        places = _listed([f"{_about(part)} ({_points(found)})" for part, found in hidden.items()])
        rest = f"; no difference shows {places}"
    if is_needed is False:
        rest += (
            "; but the groups' noise and frequency differ by no more than chance, so that "
            "regularizing all alike may do as well"
        )
    return f"{last} {_listed(told)}{rest}."


def answer_of(results: Mapping[str, Any]) -> str:
    """The sentence of a run of one seed.

    Args:
      results: With ``config``, ``means``, ``groups``, ``neighbourhoods``, and ``gains`` as
        :func:`gains` has them.
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
    found = results["neighbourhoods"]
    return bool(found["adaptation"]["is_needed"]) if found is not None and adapts else None


def _verb(difference: float) -> str:
    return "gained" if difference >= 0 else "lost"


def _about(part: str) -> str:
    return _ABOUT.get(part, f"on {part} classes")


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
