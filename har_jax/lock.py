"""One process at a time in a workdir."""

import contextlib
import datetime
import json
import os
import pathlib
import shutil
import socket
import sys
import warnings
from collections.abc import Iterator

from filelock import FileLock, Timeout

from har_jax.files import write_json


class LockError(OSError):
    """A workdir is in use by another process, or cannot be written to."""


@contextlib.contextmanager
def locked(workdir: pathlib.Path) -> Iterator[None]:
    """Makes a workdir, and keeps other processes out of it while the block runs.

    The operating system holds the lock, and releases it when the process ends, however it does. A
    workdir that the block leaves empty is removed again.

    Raises:
      LockError: at once, if another process is in there, or it cannot be written to.

    Warns:
      UserWarning: if its file system knows no locks.
    """
    lock = FileLock(workdir / ".lock")
    owner = workdir / ".owner.json"
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
        owner.unlink(missing_ok=True)
        if [path.name for path in workdir.iterdir()] in ([], [".lock"]):
            shutil.rmtree(workdir)
        lock.release()


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
