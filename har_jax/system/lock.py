"""One process at a time in a workdir."""

import contextlib
import datetime
import json
import os
import pathlib
import socket
import sys
import warnings
from collections.abc import Iterator

from filelock import FileLock, Timeout

from har_jax.system.files import write_json

OWNER = ".owner.json"


class LockError(OSError):
    """A workdir is in use by another process, or cannot be written to."""


@contextlib.contextmanager
def locked(workdir: pathlib.Path) -> Iterator[None]:
    """Makes a workdir, and keeps other processes out of it while the block runs.

    The operating system holds the lock, and releases it when the process ends, however it does. A
    workdir that was made here, and that the block leaves empty, is removed again.

    Raises:
      LockError: at once, if another process is in there, or it cannot be written to.

    Warns:
      UserWarning: if its file system knows no locks.
    """
    lock = FileLock(workdir / ".lock")
    owner = workdir / OWNER
    made = not workdir.exists()
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
        write_json(owner, _this_process())
    except Timeout:
        raise LockError(
            f"{workdir} is in use by {_described(owner)}: wait until that ends, or take another "
            "--workdir"
        ) from None
    except NotImplementedError:
        warnings.warn(
            f"{workdir} is on a file system without locks: nothing keeps a second process from "
            "writing there too",
            stacklevel=3,
        )
    except OSError as error:
        raise LockError(
            f"the workdir {workdir} cannot be written to ({error.strerror}): take another --workdir"
        ) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # what went wrong in the block matters more
            owner.unlink(missing_ok=True)
            if made and [path.name for path in workdir.iterdir()] in ([], [".lock"]):
                (workdir / ".lock").unlink(missing_ok=True)
                workdir.rmdir()
        lock.release()


def refuse_moved(workdir: pathlib.Path) -> None:
    """Raises :class:`LockError` if a locked workdir is no longer where it was."""
    if not (workdir / OWNER).exists():
        raise LockError(
            f"{workdir} was moved or removed while this ran: what was written since lies in a new "
            "folder of this name, and is not complete"
        )


def _this_process() -> dict[str, str | int]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": " ".join(sys.argv),
    }


def _described(owner: pathlib.Path) -> str:
    try:
        of = json.loads(owner.read_text())
        return f"process {of['pid']} on {of['host']} since {of['since']} ({of['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
