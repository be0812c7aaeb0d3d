"""Whether what is compiled fits into memory, before it runs: the system kills without a word."""

import pathlib
from collections.abc import Callable
from typing import Any

import jax
import psutil
from jax.sharding import Mesh

REMEDIES = (
    "take a smaller config.batch_size, more config.microbatches, config.model.remat=True or "
    "config.model.dtype=bfloat16"
)
# On CPU, convolutions take memory that XLA does not count: 6% of a step of HAR on a ConvNet, 13% of
# one of plain training.
_UNCOUNTED = 1.15
_CGROUPS = pathlib.Path("/sys/fs/cgroup")


class MemoryShortage(OSError):
    """A step that needs more memory than there is."""


def checked(step: Any, mesh: Mesh, title: str) -> Callable[..., Any]:
    """A function that refuses its first call where that does not fit into memory.

    Args:
      step: Of ``jax.jit``. It is compiled once: JAX calls what it has compiled ahead of time.
      mesh: Where it runs.
      title: What it is, for the error.

    Returns:
      The same function. Its first call raises :class:`MemoryShortage`, before anything runs, if the
      compiler says that it needs more than is available; where it does not say, nothing is raised.
    """
    fits = False

    def call(*arguments: Any) -> Any:
        nonlocal fits
        if not fits:
            _check(step.lower(*arguments).compile(), mesh, title)
            fits = True
        return step(*arguments)

    return call


def shortage(error: BaseException) -> str | None:
    """What to say of an error, if it is that memory ran out."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        reason = str(error).strip().partition("\n")[0] or "the host has no more"
        return f"memory ran out ({reason}): {REMEDIES}"
    return None


def available(device: jax.Device) -> int | None:
    """The bytes that can be had on a device, beyond those in use; None where nobody knows.

    Of a CPU they are the host's, swap included, as far as a control group lets this process go.
    """
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        if "bytes_limit" not in stats:
            return None
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    free = psutil.virtual_memory().available + psutil.swap_memory().free
    return min([free, *_left_by_cgroups(pathlib.Path("/proc/self/cgroup"), _CGROUPS)])


def _check(compiled: jax.stages.Compiled, mesh: Mesh, title: str) -> None:
    stats = compiled.memory_analysis()
    own = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    left = available(own[0])
    if stats is None or left is None:
        return
    # Arguments are in memory already. The devices of a CPU are parts of one host.
    more = stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    factor = len(own) * _UNCOUNTED if own[0].platform == "cpu" else 1
    if factor * more > left:
        raise MemoryShortage(
            f"{title}: a step needs {_size(factor * more)} of memory beside what is in use, and "
            f"there are {_size(left)}: {REMEDIES}"
        )


def _left_by_cgroups(membership: pathlib.Path, root: pathlib.Path) -> list[int]:
    """What the limits of the control groups of this process leave, in either version of these."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # not Linux
        return []
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(base) and (number := _left_by(folder, *names)) is not None:
                left.append(number)
    return left


def _left_by(folder: pathlib.Path, limit: str, usage: str, reclaimable: str) -> int | None:
    """What one control group leaves; None where it has no limit, or none that can be seen here."""
    try:
        most, used = int((folder / limit).read_text()), int((folder / usage).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # such as "max"
        return None
    return max(0, most - used + int(stat.get(reclaimable, 0)))


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
