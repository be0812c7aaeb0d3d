"""Which groups a person is shown, where there are more than can be read, and a table of all."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

_GAIN = {
    "gain": "mean",
    "gain_standard_error": "standard_error",
    "gain_low": "low",
    "gain_high": "high",
}
MOST = 40  # groups that are shown: half of them the worst, half the best


def shown(results: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The results with the groups that are to be shown, and what to say of the others.

    Up to :data:`MOST` groups are all shown. Of more, those are that gained the least and the most
    test accuracy by the last method over the first; where one was trained, those whose validation
    error is the highest and the lowest, or else whose test accuracy is the lowest and the highest.

    Returns:
      The results, and a line, which is empty where nothing is left out.
    """
    groups = results["groups"]
    if len(groups) <= MOST:
        return dict(results), ""
    what, values = _ranking(groups, list(results["means"]))
    ranked = sorted(values, key=lambda index: (values[index], index))
    half = MOST // 2
    kept = ranked if len(ranked) <= MOST else [*ranked[:half], *ranked[-half:]]
    note = (
        f"{len(groups) - len(kept)} of {len(groups)} groups are left out; shown are the "
        f"{len(kept)} of the least and the greatest {what}, and groups.csv has all"
    )
    return {**results, "groups": [groups[index] for index in kept]}, note


def as_csv(results: Mapping[str, Any]) -> str:
    """All groups, one a line, with what is known of each and of each method; empty for unknown."""
    lines = [
        {
            **{key: value for key, value in group.items() if key not in ("methods", "folds")},
            **{
                f"{method}_{key}": value
                for method, values in group["methods"].items()
                for key, value in values.items()
            },
        }
        for group in results["groups"]
    ]
    return csv_of(lines)


def methods_as_csv(results: Mapping[str, Any]) -> str:
    """Means over parts of the groups, one a line for each method, with gains over the first."""
    lines = []
    for method, means in results["means"].items():
        for part, mean in means.items():
            found = results["gains"].get(method, {}).get(part, {})
            gain = {name: found.get(key) for name, key in _GAIN.items()}
            lines.append({"method": method, "groups": part, **mean, **gain})
    return csv_of(lines)


def csv_of(lines: Sequence[Mapping[str, Any]]) -> str:
    """Lines of the same keys as CSV, with a head; empty for unknown."""
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _ranking(
    groups: Sequence[Mapping[str, Any]], methods: Sequence[str]
) -> tuple[str, dict[int, float]]:
    """What groups are compared by, and its value for each that has one, from worst to best."""
    first, last = methods[0], methods[-1]
    of = lambda group, method: group["methods"][method]["test_accuracy"]
    tested = {index: group for index, group in enumerate(groups) if of(group, first) is not None}
    if len(methods) > 1 and tested:
        gains = {index: of(group, last) - of(group, first) for index, group in tested.items()}
        return f"gain in accuracy, {last} against {first}", gains
    errors = {
        index: -group["validation_error"]
        for index, group in enumerate(groups)
        if group["validation_error"] is not None
    }
    if errors:
        return "accuracy on validation examples (1 - val. error)", errors
    return f"accuracy of {first}", {index: of(group, first) for index, group in tested.items()}
