"""The folders of an experiment's stages, and what each was made from."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from har_jax.system.files import write_json

STAGES = ("pretrain", "estimate", "start", "select", "train", "report", "predict")


class StageError(Exception):
    """A stage's folder does not fit the config, an earlier stage is missing, or what it left leaves
    nothing to go on with.

    Attributes:
      method: The one method that it keeps from being trained, if it is one's.
    """

    method: str | None = None


class WorkdirError(StageError):
    """What is in a workdir is of another config or of other data, is damaged or is gone."""


class StageFolder:
    """One stage's folder, with the config keys that its contents depend on.

    ``stage.json`` holds these keys and the digest of the data, from the stage's beginning, and
    whether it is complete.

    Args:
      path: The folder.
      fingerprint: Values by dotted config key, as JSON would give them back.
    """

    def __init__(self, path: pathlib.Path, fingerprint: Mapping[str, Any]) -> None:
        self.path = path
        self.fingerprint = json.loads(json.dumps(fingerprint))

    def differences(self) -> dict[str, tuple[Any, Any]]:
        """The keys whose value there differs from the config's: ``{key: (there, here)}``."""
        record = self._read()
        return {} if record is None else self._differences(record)

    def is_complete(self) -> bool:
        record = self._read()
        return record is not None and record["complete"] and not self._differences(record)

    def has_checkpoint(self) -> bool:
        return any(self.path.glob("checkpoints/*"))

    def need_checkpoint(self, what_for: str) -> None:
        """Raises :class:`WorkdirError` if there is no checkpoint, ``what_for`` it is needed."""
        if not self.has_checkpoint():
            raise WorkdirError(
                f"{self.path}/checkpoints is gone, {what_for}: delete {self.path} to train it anew"
            )

    def refuse_other_data(self, digest: str) -> None:
        """Raises :class:`WorkdirError` if what is there was made from data of another digest."""
        record = self._read()
        if record is not None and record["data"] != digest:
            raise WorkdirError(
                f"{self.path} was made from other data than there are now, under the same config: "
                f"bring those back, take another --workdir, or delete {self.path} to make it anew"
            )

    def begin(self, digest: str) -> None:
        """Makes the folder, or goes on in one whose fingerprint and data are the same."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(digest, complete=False)

    def finish(self, digest: str) -> None:
        self._write(digest, complete=True)

    def _read(self) -> dict[str, Any] | None:
        path = self.path / "stage.json"
        unfinished = [path.with_name(path.name + ".tmp")]  # by a process that was killed
        if not self.path.is_dir() or list(self.path.iterdir()) in ([], unfinished):
            return None
        try:
            record = json.loads(path.read_text())
            return {
                "complete": bool(record["complete"]),
                "data": str(record["data"]),
                "fingerprint": dict(record["fingerprint"]),
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WorkdirError(
                f"{path} does not say what {self.path} was made from: delete that folder to make "
                "it anew"
            ) from error

    def _differences(self, record: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        there, here = record["fingerprint"], self.fingerprint
        return {
            key: (there.get(key), here.get(key))
            for key in {**there, **here}
            if there.get(key) != here.get(key)
        }

    def _write(self, digest: str, *, complete: bool) -> None:
        record = {"complete": complete, "data": digest, "fingerprint": self.fingerprint}
        write_json(self.path / "stage.json", record)


def refuse_differences(folders: list[StageFolder]) -> None:
    """Raises :class:`WorkdirError` if any folder was made from another config."""
    differing = {folder.path: folder.differences() for folder in folders}
    differing = {path: keys for path, keys in differing.items() if keys}
    if not differing:
        return
    changes = ", ".join(
        dict.fromkeys(
            f"{key} was {there!r}, now {here!r}"
            for keys in differing.values()
            for key, (there, here) in keys.items()
        )
    )
    raise WorkdirError(
        f"the workdir was made from another config ({changes}): take another --workdir, or "
        f"delete {' and '.join(str(path) for path in differing)} to make it anew"
    )
