"""The code blocks of a page in Markdown, and what comments before them say of their test.

A comment right before a block, which readers do not see:

    <!-- skip: WHY -->        it is not run
    <!-- add: --config.x=1 --> the commands of har_jax in it get these flags too, to be quick
    <!-- file: NAME -->       it is written into a file of that name, and not run

and one anywhere, ``<!-- setup: ... -->``, is Python code that runs there: what a snippet takes as
given, and what is to hold behind it.
"""

import re
from typing import NamedTuple

_PART = re.compile(
    r"^(?P<fence>```+|~~~+)(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=fence)\s*$"
    r"|^<!-- (?P<key>skip|add|file|setup): ?(?P<said>.*?)\s*-->\s*?$",
    re.DOTALL | re.MULTILINE,
)


class Snippet(NamedTuple):
    """A block that is to be run, or the reason why it is not.

    Attributes:
      line: Where it stands, for tracebacks.
      language: ``python``, ``sh``, or another, of which nothing is run.
      code: Its lines.
      skip: Why it is not run.
      add: Flags for the commands in it.
      file: The name of the file that it is.
    """

    line: int
    language: str
    code: str
    skip: str | None = None
    add: str = ""
    file: str | None = None


def snippets(text: str) -> list[Snippet]:
    """The blocks of a page, in order; setups are blocks of Python."""
    found: list[Snippet] = []
    said: dict[str, str] = {}
    end = 0
    for part in _PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if said and text[end : part.start()].strip():
            raise ValueError(f"line {line}: the comment before it is of no block: {said}")
        end = part.end()
        if part["key"] == "setup":
            found.append(Snippet(line, "python", part["said"]))
        elif part["key"]:
            said[part["key"]] = part["said"]
        else:
            found.append(Snippet(line + 1, part["language"], part["code"], **said))
            said = {}
    return found


def without_code(text: str) -> str:
    """A page's prose: blocks, comments and literals are blank."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    text = _PART.sub(blank, text)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.DOTALL)
    return re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", blank, text)
