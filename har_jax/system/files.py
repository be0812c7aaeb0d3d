"""Files that are there whole or not at all, and are read without unpickling."""

import json
import os
import pathlib
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

import numpy as np


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a file that is there whole or not at all."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a file that is there whole or not at all."""
    write_by(path, lambda file: file.write(text.encode()))


def write_arrays(path: pathlib.Path, **arrays: np.ndarray) -> None:
    """Writes an ``.npz`` that is there whole or not at all."""
    write_by(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def read_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads what :func:`write_arrays` wrote.

    Raises:
      OSError: if that is not there, or damaged.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, KeyError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise damaged(path, error) from error


def write_array(path: pathlib.Path, array: np.ndarray) -> None:
    """Writes an ``.npy`` that is there whole or not at all."""
    write_by(path, lambda file: np.save(file, array, allow_pickle=False))


def read_array(path: pathlib.Path) -> np.ndarray:
    """Reads an ``.npy``.

    Raises:
      OSError: if it is not there, or is none.
    """
    with path.open("rb") as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except Exception as error:  # NumPy has many types for a damaged file
            raise OSError(f"{path} is no .npy of numbers, or damaged") from error


def damaged(path: pathlib.Path, error: Exception) -> OSError:
    """The error for a file of ours that cannot be read, with the remedy."""
    return OSError(
        f"{path} is damaged ({type(error).__name__}: {error}): delete {path.parent} and run the "
        "same command to make it anew"
    )


def write_by(path: pathlib.Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Writes a file that is there whole or not at all, by a function that writes to an open one."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())  # or a crash of the machine could leave an empty file of this name
    os.replace(temporary, path)
