"""Ctrl-C, SIGTERM and a closed terminal: what is under way is saved, in bounded time.

Handlers only note that a signal came: an exception that they raised could be raised anywhere, in
the callback of a weak reference for one, where Python prints it and goes on. :func:`check` raises
it, at points that the program can be left at.
"""

import contextlib
import multiprocessing
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS_TO_SAVE = 9.0  # of a command; what sent the signal may send SIGKILL after 10

_came: list[int] = []  # signals that were noted, and that nothing was raised for yet

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end.

    Attributes:
      signal: Which.
    """

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(f"interrupted by {self.signal.name}")

    def __reduce__(self) -> tuple[type["Interrupted"], tuple[int]]:
        return type(self), (int(self.signal),)


def received() -> Interrupted | None:
    """The first signal since :func:`end_in_time`, if one came."""
    return Interrupted(_came[0]) if _came else None


def check() -> None:
    """Raises :class:`Interrupted` if a signal came since :func:`end_in_time`."""
    if interrupted := received():
        raise interrupted


def checked(items: Iterable[T]) -> Iterator[T]:
    """The same items, with a :func:`check` before each."""
    for item in items:
        check()
        yield item


@contextlib.contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """Holds :data:`SIGNALS` back while the block runs, without :func:`end_in_time` too.

    Only in the main thread, the one that Python runs handlers in; in others nothing changes.

    Yields:
      A function that says whether one of them came: the block should come to its end then.

    Raises:
      Interrupted: at the end of the block, if one did.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, _note) for number in _heeded()}
    try:
        yield lambda: bool(_came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        interrupted = received()
        if _note not in before.values():  # a next block has nothing to do with this signal
            _came.clear()
    if interrupted:
        raise interrupted


def end_at_once() -> None:
    """Leaves :data:`SIGNALS` to the system, which ends the process.

    To be called while there is nothing to save: before :func:`end_in_time`, as early as in an
    import, where Python's own KeyboardInterrupt can be lost, and after all is done, before a last
    :func:`check`.
    """
    for number in _heeded():
        signal.signal(number, signal.SIG_DFL)


def end_in_time(seconds: float) -> None:
    """Notes :data:`SIGNALS` for :func:`check` to raise, and bounds what follows.

    After a first signal the process has ``seconds`` to end, and a second one ends it at once,
    whatever it does then, be it compiling: as safely as SIGKILL would.
    """
    for number in _heeded():
        signal.signal(number, _note)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)  # is written to even while Python is kept from running handlers
    threading.Thread(target=_end_after_signal, args=(reader, seconds), daemon=True).start()


def end_with_parent() -> None:
    """Ends this process, one that ``multiprocessing`` started, when its parent ends anyhow."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _heeded() -> list[signal.Signals]:
    """Our signals but those that this process was started to ignore, as by nohup."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def _note(number: int, _: object) -> None:
    _came.append(number)


def _end_after_signal(reader: int, seconds: float) -> None:
    first = _read_signal(reader, None)
    assert first is not None
    _read_signal(reader, seconds)
    print(
        f"har_jax: {Interrupted(first)} and ended before it could save: the same command goes on "
        "from the last checkpoint",
        file=sys.stderr,
        flush=True,
    )
    os._exit(128 + first)


def _read_signal(reader: int, seconds: float | None) -> int | None:
    """Waits for one of our signals; None if none came in time."""
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left = None if end is None else max(0.0, end - time.monotonic())
        if not select.select([reader], [], [], left)[0]:
            return None
        if (number := os.read(reader, 1)[0]) in SIGNALS:
            return number
