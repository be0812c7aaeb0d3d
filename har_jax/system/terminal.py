"""How commands speak, which never fails them, and how they end: with one line and a status."""

import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

_MOST_ENTRIES, _FEW = 40, 5


def guard_output() -> None:
    """Lets nothing that is printed from here on fail the program, and warnings be a line each.

    What the encoding of standard output or error lacks is written with backslashes. Where nobody
    reads them any more, or their disk is full, the rest goes nowhere, and the program goes on.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # None, where it was closed beforehand
            guarded = _Output(
                stream.buffer,
                stream.encoding,
                "backslashreplace",
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            setattr(sys, name, guarded)
    warn_in_lines()


def warn_in_lines(of: str = "") -> None:
    """Has warnings shown as one line each, without where in the code they come from.

    Args:
      of: What they are of, where several are at work at once.
    """
    begin = f"har_jax: warning: {of}: " if of else "har_jax: warning: "
    warnings.formatwarning = lambda message, *_, **__: f"{begin}{_line(str(message))}\n"


def brief(value: Any) -> str:
    """A value for people to read: of a list of many entries the first and the last few."""
    return f"[{some(value)}]" if isinstance(value, (list, tuple)) else str(value)


def some(entries: Sequence[Any]) -> str:
    """Entries behind one another: of many the first and the last few, and how many they are."""
    if len(entries) <= _MOST_ENTRIES:
        return ", ".join(map(str, entries))
    first, last = (", ".join(map(str, part)) for part in (entries[:_FEW], entries[-_FEW:]))
    return f"{first}, ..., {last} ({len(entries)} in all)"


def stop(message: str, status: int = 2, *, at_once: bool = False) -> NoReturn:
    """Ends the program with a message on one line.

    Args:
      message: Line breaks become spaces.
      status: 2 stands for a wrong command or config.
      at_once: Whether to leave out what Python does at its end, such as waiting for other
        processes of a run, which may be gone.
    """
    print(f"har_jax: {_line(message)}", file=sys.stderr, flush=True)
    if at_once:
        if sys.stdout is not None:
            sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def _line(text: str) -> str:
    return " ".join(text.split())


class _Output(io.TextIOWrapper):
    """A standard stream that is given up in place of failing who writes to it."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        # What is buffered goes there too, so that Python can flush it at its end.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self.fileno())
        if self is sys.stdout:
            print(
                f"har_jax: warning: standard output is lost ({error.strerror}): the run goes on "
                "without",
                file=sys.stderr,
                flush=True,
            )
