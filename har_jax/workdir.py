"""The folders of an experiment's stages, and what each was made from."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

STAGES = ("pretrain", "estimate", "train", "report")


class StageError(Exception):
    """A stage's folder does not fit the config, or an earlier stage is missing."""


class StageFolder:
    """One stage's folder, with the config keys that its contents depend on.

    ``stage.json`` holds these keys, from the stage's beginning, and whether it is complete.

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
        if record is None:
            return {}
        there, here = record["fingerprint"], self.fingerprint
        keys = {**there, **here}
        return {
            key: (there.get(key), here.get(key)) for key in keys if there.get(key) != here.get(key)
        }

    def is_complete(self) -> bool:
        record = self._read()
        return record is not None and record["complete"] and not self.differences()

    def begin(self) -> None:
        """Makes the folder, or goes on in one whose fingerprint is the same."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(complete=False)

    def finish(self) -> None:
        self._write(complete=True)

    def _read(self) -> dict[str, Any] | None:
        path = self.path / "stage.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _write(self, *, complete: bool) -> None:
        write_json(
            self.path / "stage.json", {"complete": complete, "fingerprint": self.fingerprint}
        )


def refuse_differences(folders: list[StageFolder]) -> None:
    """Raises :class:`StageError` if any folder was made from another config."""
    differing = {folder.path: folder.differences() for folder in folders}
    differing = {path: keys for path, keys in differing.items() if keys}
    if not differing:
        return
    keys = {key: values for found in differing.values() for key, values in found.items()}
    changes = ", ".join(f"{key} was {there!r}, now {here!r}" for key, (there, here) in keys.items())
    raise StageError(
        f"the workdir was made from another config ({changes}): take another --workdir, or "
        f"delete {' and '.join(str(path) for path in differing)} to make it anew"
    )


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a file that is there whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n")
    os.replace(temporary, path)


def write_arrays(path: pathlib.Path, **arrays: np.ndarray) -> None:
    """Writes an ``.npz`` that is there whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    os.replace(temporary, path)


def read_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads what :func:`write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)
