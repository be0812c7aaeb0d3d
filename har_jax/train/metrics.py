"""Metrics on disk: JSON lines and TensorBoard events."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from tensorboardX import SummaryWriter

from har_jax.files import damaged, write_text


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
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "metrics.jsonl"
        kept = [record for record in read_metrics(path) if record["step"] <= resume_step]
        write_text(path, "".join(map(_line, kept)))
        self._file = path.open("a")
        # Events of later steps are hidden by the purge; those of the next step on count.
        self._events = SummaryWriter(
            str(directory / "tensorboard"), purge_step=resume_step + 1, write_to_disk=True
        )

    def write(self, record: Mapping[str, Any], rates: Mapping[str, float]) -> None:
        """Writes one record.

        Args:
          record: With a ``step``; what a run with the same seeds writes again.
          rates: What depends on the machine, for TensorBoard only.
        """
        if not self._writes:
            return
        self._file.write(_line(record))
        self._file.flush()
        for name, value in {**record, **rates}.items():
            if name != "step":
                self._events.add_scalar(name, value, record["step"])

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._writes:
            self._file.close()
            self._events.close()


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
