"""What a source has found, and passed over, which is told before anything is trained."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping


@dataclasses.dataclass(frozen=True)
class Found:
    """Where a data set comes from, for people to check.

    Attributes:
      splits: Of every split, what it was made of, such as ``the folder 'val'``.
      counts: What else there is to say, such as ``left out: files *.txt``, with how many there are.
    """

    splits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def counted(self, counts: Mapping[str, int]) -> "Found":
        """The same, with more to say; nothing is said of none."""
        more = {what: count for what, count in counts.items() if count}
        return dataclasses.replace(self, counts={**self.counts, **more})


def by_suffix(names: Iterable[str]) -> dict[str, int]:
    """How many files have each suffix, most frequent first.

    Example:
      >>> by_suffix(["a/notes.txt", "b/more.TXT", "README"])
      {'files *.txt': 2, 'files without a suffix': 1}
    """
    suffixes = collections.Counter(pathlib.PurePath(name).suffix.lower() for name in names)
    return {
        f"files *{suffix}" if suffix else "files without a suffix": count
        for suffix, count in suffixes.most_common()
    }
