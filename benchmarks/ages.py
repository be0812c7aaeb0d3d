"""Which measured tables are older than the code that they are of.

python -m benchmarks.ages

Every file in docs/results/ but its index says at which commit its tables were measured, and with
what besides what all of them depend on: "Measured at commit `35e0f17`, with `configs/digits.py`."
For each file the commits since then are listed that changed any of it, but for those whose message
ends with the line "Bits: same": who wrote them has compared what a short run gives, bit for bit.
"""

import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = sorted(set(RESULTS.glob("*.md")) - {RESULTS / "index.md"})
# What no table depends on, of the package that all depend on.
WITHOUT = ("har_jax/report", "har_jax/reproduce", "har_jax/tune", "har_jax/main.py")
SAME = "Bits: same"


class Measured(NamedTuple):
    """What a file says of its tables.

    Attributes:
      commit: At which they were measured.
      paths: What they depend on beside the package.
    """

    commit: str
    paths: tuple[str, ...]


def measured(text: str) -> Measured | None:
    """Reads the sentence; None if there is none."""
    found = re.search(r"Measured at commit `(\w+)`, with ((?:`[^`]+`(?:, | and )?)+)", text)
    return found and Measured(found[1], tuple(re.findall(r"`([^`]+)`", found[2])))


def changes_since(of: Measured) -> list[str]:
    """The commits that changed what the tables depend on, the newest first."""
    record, field = "\x1e", "\x1f"
    log = git(
        "log",
        f"--format={record}%h %s{field}%B",
        f"{of.commit}..HEAD",
        "--",
        "har_jax",
        *of.paths,
        *(f":(exclude){path}" for path in WITHOUT),
    )
    commits = [entry.split(field) for entry in log.split(record)[1:]]
    return [title for title, message in commits if SAME not in message.splitlines()]


def git(*arguments: str) -> str:
    """What a command of git prints."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def lines(files: Sequence[pathlib.Path]) -> list[str]:
    """What there is to say of each file."""
    said = []
    for file in files:
        of = measured(file.read_text())
        if of is None:
            said.append(f"{file.name}: says of no commit that it was measured at it")
            continue
        changes = changes_since(of)
        said.append(f"{file.name}: {f'{len(changes)} changes' if changes else 'nothing'} since")
        said += [f"  {change}" for change in changes]
    return said


def main() -> None:
    try:
        print("\n".join(lines(PAGES)))
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the history cannot be read ({error}): run this in a clone with all commits")


if __name__ == "__main__":
    main()
