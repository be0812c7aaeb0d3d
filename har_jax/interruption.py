"""Ctrl-C, SIGTERM and a closed terminal: what is under way is saved, in bounded time."""

import contextlib
import multiprocessing
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS_TO_SAVE = 9.0  # of a command; what sent the signal may send SIGKILL after 10


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end.

    Attributes:
      signal: Which.
    """

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(f"interrupted by {self.signal.name}")


@contextlib.contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """Holds :data:`SIGNALS` back while the block runs.

    Only in the main thread, the one that Python runs handlers in; in others nothing changes.

    Yields:
      A function that says whether one of them came: the block should come to its end then.

    Raises:
      Interrupted: at the end of the block, if one did.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {
        number: signal.signal(number, lambda number, _: came.append(number)) for number in _heeded()
    }
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise Interrupted(came[0])


def end_in_time(seconds: float) -> None:
    """Makes :data:`SIGNALS` raise :class:`Interrupted`, and bounds what follows.

    After a first signal the process has ``seconds`` to end, and a second one ends it at once,
    whatever it does then, be it compiling: as safely as SIGKILL would.
    """
    for number in _heeded():
        signal.signal(number, _raise)
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


def _raise(number: int, _: object) -> None:
    raise Interrupted(number)


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
