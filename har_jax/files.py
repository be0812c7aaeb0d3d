"""Files that are there whole or not at all, and are read without unpickling."""

import json
import os
import pathlib
from typing import Any

import numpy as np


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a file that is there whole or not at all."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a file that is there whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
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
