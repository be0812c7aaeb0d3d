"""Checkpoints of a training run, with Orbax: whole ones, and the newest that is not damaged."""

import contextlib
import hashlib
import json
import pathlib
import re
import shutil
import tempfile
import warnings
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from orbax.checkpoint import v1 as ocp

from har_jax.system.files import write_json
from har_jax.system.processes import is_first, wait_for_all

_DIGESTS = "digests.json"  # of a checkpoint's files; written last
_INDEX = "state/manifest.ocdbt"  # of its arrays, without which none of them is found
# What Orbax and TensorStore take as it is: they read [a] as a pattern, \ as / and gs:/ as a scheme.
_LITERAL = re.compile(r"(?!.*:/)[\w\s./:;,=+@%#~^&(){}'\"!$|<>-]*")


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
        self._link: tempfile.TemporaryDirectory | None = None
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
        folder = self._as_orbax_takes_it()  # fails before anything is trained
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
        try:
            return _load(folder / whole[0].name, like)
        except Exception as error:  # Orbax has many types for a tree of another structure
            if isinstance(error, FileNotFoundError) or "NOT_FOUND" in str(error):
                raise CheckpointError(
                    f"the checkpoint {whole[0]} lacks a part of what was to be saved "
                    f"({_in_short(error)}): delete that folder to go on from one before, or take "
                    "another --workdir"
                ) from error
            raise CheckpointError(
                f"the checkpoint {whole[0]} is whole, but does not fit what is trained now "
                f"({_in_short(error)}): it may be of another version; take another --workdir"
            ) from error

    def save(self, step: int, tree: PyTree) -> None:
        """Saves ``tree``; returns when it is on disk. The first one is read again, and compared.

        Raises:
          CheckpointError: if it cannot be; earlier checkpoints are as they were.
        """
        try:
            is_a_first, folder = self._checkpointer is None, self._as_orbax_takes_it()
            if self._checkpointer is None:
                self._checkpointer = ocp.training.Checkpointer(
                    folder,
                    save_decision_policy=ocp.training.save_decision_policies.FixedIntervalPolicy(1),
                    preservation_policy=ocp.training.preservation_policies.LatestN(self._keep),
                    cleanup_tmp_directories=True,
                )
            self._checkpointer.save(step, tree)
            path = self._directory / str(step)
            names = _files(path)
            if _INDEX not in names:
                raise OSError(f"{_INDEX} was not written")
            if is_a_first and not _equal(_load(folder / str(step), tree), tree):
                raise OSError("what is read from it again is not what was written")
            if is_first():
                write_json(path / _DIGESTS, {name: _digest(path / name) for name in names})
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
        if self._link is not None:
            self._link.cleanup()

    def _as_orbax_takes_it(self) -> pathlib.Path:
        """The folder, by way of a link where its own path would be read as something else."""
        if _LITERAL.fullmatch(str(self._directory)):
            return self._directory
        if self._link is None:
            self._link = tempfile.TemporaryDirectory(prefix="har_jax-")
            self._directory.mkdir(parents=True, exist_ok=True)
            (pathlib.Path(self._link.name) / "checkpoints").symlink_to(self._directory)
        path = pathlib.Path(self._link.name) / "checkpoints"
        if not _LITERAL.fullmatch(str(path)):
            raise CheckpointError(
                f"Orbax cannot save in {self._directory}, nor by way of {path}: take a --workdir, "
                "or a $TMPDIR, without brackets and the like"
            )
        return path

    def _steps(self) -> list[pathlib.Path]:
        """The folders of checkpoints, from the newest to the oldest."""
        paths = [path for path in self._directory.glob("*") if path.name.isdigit()]
        return sorted(paths, key=lambda path: int(path.name), reverse=True)


def _damage(path: pathlib.Path) -> str:
    """What is wrong with a checkpoint's files; nothing if they are what was written."""
    try:
        expected = dict(json.loads((path / _DIGESTS).read_text()))
        if _INDEX not in expected:
            return f"{_INDEX} is missing"
        for name, digest in expected.items():
            if _digest(path / name) != digest:
                return f"{name} is not what was written"
    except FileNotFoundError as error:
        return f"{pathlib.Path(error.filename).relative_to(path)} is missing"
    except (OSError, ValueError, TypeError) as error:
        return f"{_DIGESTS} cannot be read: {_in_short(error)}"
    return ""


def _load(path: pathlib.Path, like: PyTree) -> Any:
    """A checkpoint's tree, placed as another."""
    abstract = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), like
    )
    return ocp.load(path, abstract)


def _equal(one: PyTree, other: PyTree) -> bool:
    """Whether two trees that are placed alike hold the same bits, in what lies here of them."""
    bits = lambda leaf: [np.asarray(part.data).tobytes() for part in leaf.addressable_shards]
    return all(bits(a) == bits(b) for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True))


def _files(path: pathlib.Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def _digest(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _in_short(error: BaseException) -> str:
    """An error's type and the beginning of its message, on one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:400]}{'...' if len(message) > 400 else ''}"
