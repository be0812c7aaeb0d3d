"""Checkpoints of a training run, with Orbax."""

import contextlib
import pathlib
import shutil
import signal
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import jax
from jaxtyping import PyTree
from orbax.checkpoint import v1 as ocp


class Checkpoints:
    """The checkpoints in one folder; the newest ``keep`` of them stay.

    Args:
      directory: Made where it does not exist. What an interrupted save left there is
        removed, with a warning.
      keep: How many checkpoints to keep.
    """

    def __init__(self, directory: pathlib.Path, keep: int = 2) -> None:
        directory = directory.resolve()  # Orbax takes no relative path
        _remove_incomplete(directory)
        self._checkpointer = ocp.training.Checkpointer(
            directory,
            save_decision_policy=ocp.training.save_decision_policies.FixedIntervalPolicy(1),
            preservation_policy=ocp.training.preservation_policies.LatestN(keep),
            cleanup_tmp_directories=True,
        )

    def restore_latest(self, like: PyTree) -> Any | None:
        """The newest checkpoint, or None where there is none.

        Args:
          like: A tree of ``jax.Array`` of the same structure, placed on the devices on which
            the restored one is to lie.
        """
        if self._checkpointer.latest is None:
            return None
        abstract = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), like
        )
        return self._checkpointer.load(self._checkpointer.latest, abstract)

    def save(self, step: int, tree: PyTree) -> None:
        """Saves ``tree``; returns when it is on disk. A Ctrl-C meanwhile takes effect after."""
        with _interrupts_held_back():
            self._checkpointer.save(step, tree)

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *exception: object) -> None:
        self._checkpointer.close()


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Lets the block finish before a Ctrl-C is raised: cut in the middle, Orbax may hang."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _remove_incomplete(directory: pathlib.Path) -> None:
    """Orbax would take the folder of a step for a checkpoint, even an empty one."""
    for path in sorted(directory.glob("*")):
        if path.name.isdigit() and not (path / "_CHECKPOINT_METADATA").exists():
            warnings.warn(f"{path} is an incomplete checkpoint and is removed", stacklevel=3)
            shutil.rmtree(path)
