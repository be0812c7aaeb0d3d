"""Classes by id or by name, as configs give them."""

import dataclasses
import difflib
from collections.abc import Sequence

from har_jax.data.examples import DataError
from har_jax.system.terminal import some


@dataclasses.dataclass(frozen=True)
class Classes:
    """The classes of a source.

    Attributes:
      names: ``K``, in the order of the ids.
      source: Whose they are, for errors.
    """

    names: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise DataError(
                f"the classes {some(self.names)} of {self.source} are not all different"
            )

    def ids(self, classes: Sequence[int | str], key: str) -> tuple[int, ...]:
        """As :func:`class_ids` has them."""
        return class_ids(classes, self.names, key=key, source=self.source)


def class_ids(
    classes: Sequence[int | str], class_names: Sequence[str], *, key: str, source: str
) -> tuple[int, ...]:
    """The ids of classes.

    Args:
      classes: Ids or names.
      class_names: ``K`` names, in the order of the ids.
      key: The config key that names them, for errors.
      source: Whose classes they are, for errors.

    Raises:
      DataError: if there is no such class, one is named twice, or a number is the id of one and
        the name of another.
    """
    said = f"config.{key}"
    ids = tuple(class_id(entry, class_names, said=said, source=source) for entry in classes)
    for label in ids:
        if ids.count(label) > 1:
            raise DataError(
                f"{said} names class {label} ({class_names[label]!r}) twice: remove one"
            )
    return ids


def class_id(entry: int | str, class_names: Sequence[str], *, said: str, source: str) -> int:
    """The id of one class.

    Args:
      entry: Id or name.
      class_names: ``K`` names, in the order of the ids.
      said: What names it, such as ``line 3 of labels.csv``, for errors.
      source: Whose classes they are, for errors.

    Raises:
      DataError: if there is no such class, or a number is the id of one and the name of another.
    """
    if isinstance(entry, str) and entry in class_names:
        return class_names.index(entry)
    if isinstance(entry, int) and 0 <= entry < len(class_names):
        for label, name in enumerate(class_names):
            if label != entry and name.strip().isdecimal() and int(name) == entry:
                raise DataError(
                    f"{said} names class {entry}, which is the id of class "
                    f"{class_names[entry]!r} of {source} and the name of another, whose id is "
                    f"{label}: write {name!r} or {class_names[entry]!r}, as strings"
                )
        return entry
    near = difflib.get_close_matches(str(entry), class_names, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"they are {_listing(class_names)}"
    raise DataError(
        f"{said} names class {entry!r}, which is none of the {len(class_names)} classes of "
        f"{source}: {remedy}"
    )


def _listing(class_names: Sequence[str]) -> str:
    shown = ", ".join(f"{label} {name!r}" for label, name in enumerate(class_names[:10]))
    return shown if len(class_names) <= 10 else f"{shown}, ... {len(class_names) - 1}"
