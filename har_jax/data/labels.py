"""Names of classes that are none, or nearly the same."""

import collections
import re
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from har_jax.options import Option
from har_jax.system.terminal import some

OnMissing = Literal["stop", "skip", "keep"]
"""What to do with an example whose label says that there is none: end with an error, leave it out,
or take what it says for the name of a class."""

OnMissingLabel = Annotated[OnMissing, Option("what to do with labels such as NaN")]

_MISSING = frozenset(
    (
        "", "-", "?", "#n/a", "#na", "<na>", "n/a", "na", "nan", "-nan", "nil", "null", "none",
        "<none>", "missing", "unsup", "unlabeled", "unlabelled", "no label",
        "not labeled", "not labelled",
    )
)  # fmt: skip
_SIGNS = frozenset(("-1", "-1.0", "1", "1.0", "+1", "+1.0"))


def missing_names(names: Iterable[str]) -> frozenset[str]:
    """The names among those of classes that say that there is none.

    -1 does as well, but for where the only other class is 1.

    Example:
      >>> sorted(missing_names(["cat", "None", "-1"])), sorted(missing_names(["-1", "1"]))
      (['-1', 'None'], [])
    """
    names = set(names)
    missing = _MISSING if names <= _SIGNS else _MISSING | {"-1", "-1.0"}
    return frozenset(name for name in names if name.strip().lower() in missing)


def warn_of_near_names(names: Sequence[str], what: str) -> None:
    """Warns of names that differ in case, blanks, or the spelling of a number or letter alone.

    Args:
      names: All different.
      what: Such as ``classes``.
    """
    alike = collections.defaultdict(list)
    for name in names:
        alike[_plain(name)].append(name)
    if near := [group for group in alike.values() if len(group) > 1]:
        shown = some([" and ".join(map(repr, group)) for group in near])
        warnings.warn(
            f"there are {what} whose names are nearly the same: {shown}: if they are one, give "
            "them one name",
            stacklevel=2,
        )


def _plain(name: str) -> str:
    """What names have in common that people would take for one."""
    normal = unicodedata.normalize("NFKC", name)
    seen = "".join(letter for letter in normal if unicodedata.category(letter) != "Cf")
    plain = " ".join(seen.casefold().split())
    plain = re.sub(r"(?<=[^\W\d_])[\s_-]+(?=[^\W\d_])", "", plain)  # of hot dog and hot_dog
    return re.sub(r"^([+-]?)0*(\d+)(\.0*)?$", _number, plain)


def _number(match: re.Match[str]) -> str:
    sign, digits, _ = match.groups()
    return ("-" if sign == "-" else "") + digits
