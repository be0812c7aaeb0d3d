"""Metrics on disk: JSON lines and TensorBoard events."""

import json
import os
import pathlib
import socket
import time
from collections.abc import Mapping
from typing import Any

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import scalar

from har_jax.system.files import damaged, write_text


class MetricsWriter:
    """Writes ``metrics.jsonl`` and ``tensorboard/`` in a folder.

    A run that resumes writes on behind the step that it resumes from: later records, of
    steps that will be made again, are dropped.

    Args:
      directory: Made where it does not exist.
      resume_step: The last step whose record is kept.
      writes: Whether anything is written: by one process of several.
    """

    def __init__(self, directory: pathlib.Path, resume_step: int, writes: bool = True) -> None:
        self._writes = writes
        if not writes:
            return
        (directory / "tensorboard").mkdir(parents=True, exist_ok=True)
        self._path = directory / "metrics.jsonl"
        kept = [record for record in read_metrics(self._path) if record["step"] <= resume_step]
        write_text(self._path, "".join(map(_line, kept)))
        self._file = self._path.open("a")
        # By hand, and not in a thread, as the library's SummaryWriter does it: that one waits for
        # ever for a thread that a full disk has ended.
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._events = RecordWriter(str(directory / "tensorboard" / name))
        self._event(file_version="brain.Event:2")
        # Events of later steps are hidden by this; those of the next step on count.
        self._event(step=resume_step + 1, session_log=SessionLog(status=SessionLog.START))

    def write(self, record: Mapping[str, Any], rates: Mapping[str, float]) -> None:
        """Writes one record.

        Args:
          record: With a ``step``; what a run with the same seeds writes again.
          rates: What depends on the machine, for TensorBoard only.

        Raises:
          OSError: if that cannot be done, with what to do.
        """
        if not self._writes:
            return
        try:
            self._file.write(_line(record))
            self._file.flush()
            for name, value in {**record, **rates}.items():
                if name != "step":
                    self._event(step=record["step"], summary=scalar(name, value))
            self._events.flush()
        except OSError as error:
            raise OSError(
                f"the record of step {record['step']} cannot be written to {self._path} "
                f"({error.strerror}): see to that disk; the same command then goes on from the "
                "last checkpoint"
            ) from error

    def _event(self, **what: Any) -> None:
        self._events.write(Event(wall_time=time.time(), **what).SerializeToString())

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if not self._writes:
            return
        for stream in (self._file, self._events):
            try:
                stream.close()
            except OSError:  # of what could not be written, which is told already
                if kind is None:
                    raise


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record) + "\n"


def read_metrics(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads the records of ``metrics.jsonl``; none where there is no file.

    Raises:
      OSError: if the file is damaged elsewhere than in its last line, which may be cut.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]
    except ValueError as error:
        raise damaged(path, error) from error
