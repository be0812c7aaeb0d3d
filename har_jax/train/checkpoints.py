"""Checkpoints of a training run, with Orbax: whole ones, and the newest that is not damaged."""

import contextlib
import hashlib
import json
import pathlib
import shutil
import warnings
from typing import Any

import jax
from jaxtyping import PyTree
from orbax.checkpoint import v1 as ocp

from har_jax.files import write_json
from har_jax.processes import is_first, wait_for_all

_DIGESTS = "digests.json"  # of a checkpoint's files; written last


class CheckpointError(OSError):
    """A checkpoint cannot be saved, or none of those that are there be restored."""


class Checkpoints:
    """The checkpoints in one folder; the newest ``keep`` of them stay.

    Args:
      directory: Made where it does not exist. What an interrupted save left there is
        removed, with a warning.
      keep: How many checkpoints to keep.
    """

    def __init__(self, directory: pathlib.Path, keep: int = 2) -> None:
        self._directory = directory.resolve()  # Orbax takes no relative path
        self._keep = keep
        self._checkpointer: ocp.training.Checkpointer | None = None
        # Orbax would take any folder of a step for a checkpoint, even an empty one.
        incomplete = [path for path in self._steps() if not (path / _DIGESTS).exists()]
        wait_for_all("checkpoints listed")
        for path in incomplete if is_first() else ():
            warnings.warn(f"{path} is an incomplete checkpoint and is removed", stacklevel=2)
            shutil.rmtree(path)
        wait_for_all("incomplete checkpoints removed")

    def latest(self) -> pathlib.Path | None:
        """The folder of the newest checkpoint; None where there is none."""
        return next(iter(self._steps()), None)

    def restore_latest(self, like: PyTree) -> Any | None:
        """The newest checkpoint that is whole, or None where there is none at all.

        Newer ones that are damaged are set aside, as ``damaged-STEP``, with a warning. To be
        called before anything is saved.

        Args:
          like: A tree of ``jax.Array`` of the same structure, placed on the devices on which
            the restored one is to lie.

        Raises:
          CheckpointError: if all are damaged, or one that is whole does not fit ``like``.
        """
        damage = {path: _damage(path) for path in self._steps()}
        wait_for_all("checkpoints checked")
        whole = [path for path, what in damage.items() if not what]
        if damage and not whole:
            path, what = next(iter(damage.items()))
            raise CheckpointError(
                f"every checkpoint in {self._directory} is damaged ({path.name}: {what}): to train "
                "from the beginning, delete that folder"
            )
        for path, what in damage.items():
            if what and is_first():
                aside = path.with_name(f"damaged-{path.name}")
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)
                warnings.warn(
                    f"the checkpoint {path} is damaged ({what}): it is set aside as {aside.name}, "
                    f"and training goes on from step {whole[0].name}",
                    stacklevel=2,
                )
        if not whole:
            return None
        abstract = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), like
        )
        try:
            return ocp.load(whole[0], abstract)
        except Exception as error:  # Orbax has many types for a tree of another structure
            raise CheckpointError(
                f"the checkpoint {whole[0]} is whole, but does not fit what is trained now "
                f"({_in_short(error)}): it may be of another version; take another --workdir"
            ) from error

    def save(self, step: int, tree: PyTree) -> None:
        """Saves ``tree``; returns when it is on disk.

        Raises:
          CheckpointError: if it cannot be; earlier checkpoints are as they were.
        """
        try:
            if self._checkpointer is None:
                self._checkpointer = ocp.training.Checkpointer(
                    self._directory,
                    save_decision_policy=ocp.training.save_decision_policies.FixedIntervalPolicy(1),
                    preservation_policy=ocp.training.preservation_policies.LatestN(self._keep),
                    cleanup_tmp_directories=True,
                )
            self._checkpointer.save(step, tree)
            path = self._directory / str(step)
            if is_first():
                write_json(path / _DIGESTS, {name: _digest(path / name) for name in _files(path)})
        except Exception as error:  # Orbax has many types for a full disk
            raise CheckpointError(
                f"the checkpoint of step {step} cannot be saved in {self._directory} "
                f"({_in_short(error)}): see to that folder and its disk; the same command then "
                "goes on from the checkpoint before"
            ) from error

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._checkpointer is not None:
            with contextlib.suppress(Exception):  # which raises once more what `save` raised
                self._checkpointer.close()

    def _steps(self) -> list[pathlib.Path]:
        """The folders of checkpoints, from the newest to the oldest."""
        paths = [path for path in self._directory.glob("*") if path.name.isdigit()]
        return sorted(paths, key=lambda path: int(path.name), reverse=True)


def _damage(path: pathlib.Path) -> str:
    """What is wrong with a checkpoint's files; nothing if they are what was written."""
    try:
        expected = dict(json.loads((path / _DIGESTS).read_text()))
        for name, digest in expected.items():
            if _digest(path / name) != digest:
                return f"{name} is not what was written"
    except FileNotFoundError as error:
        return f"{pathlib.Path(error.filename).relative_to(path)} is missing"
    except (OSError, ValueError, TypeError) as error:
        return f"{_DIGESTS} cannot be read: {_in_short(error)}"
    return ""


def _files(path: pathlib.Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def _digest(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _in_short(error: BaseException) -> str:
    """An error's type and the beginning of its message, on one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:400]}{'...' if len(message) > 400 else ''}"
