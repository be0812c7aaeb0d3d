"""The devices that a batch is split over."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from har_jax.models.layers.norm import AXIS

WHOLE = PartitionSpec()
ROWS = PartitionSpec(AXIS)
ROWS_OF_STEPS = PartitionSpec(None, AXIS)


class DeviceError(OSError):
    """The devices that JAX was told to take are not there."""


def open_devices() -> None:
    """Makes JAX open the devices, so that what is wrong with them is told in one line.

    Raises:
      DeviceError: if it cannot.
    """
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter says nothing
        told = os.environ.get("JAX_PLATFORMS")
        if not told:
            raise DeviceError(f"JAX cannot open its devices: {error}") from error
        reason = str(error).partition(" (set JAX_PLATFORMS")[0].rstrip(".")
        reason = reason or "there is no such device here"
        raise DeviceError(
            f"JAX_PLATFORMS={told} cannot be opened ({reason}): unset that variable to take the "
            "best device that is here, set it to cpu, or install the JAX of the device, such as "
            "jax[cuda] or jax[tpu], on a machine that has one"
        ) from error


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of one axis, :data:`AXIS`; of all devices of all processes by default."""
    chosen = np.asarray(jax.devices() if devices is None else devices)
    return Mesh(chosen, (AXIS,), axis_types=(AxisType.Auto,))


def choose_mesh(devices: int | None, batch_size: int, microbatches: int) -> Mesh:
    """The mesh that a config asks for.

    Args:
      devices: How many; None for all.
      batch_size: To be split over them, and then into
      microbatches: so many parts.

    Raises:
      ValueError: if there are fewer devices, or the parts are not equal.
    """
    there = jax.devices()
    if devices is not None and devices > len(there):
        raise ValueError(
            f"config.devices={devices} are more than the {len(there)} of kind "
            f"{there[0].device_kind} that are here"
        )
    mesh = data_mesh(there[:devices])
    if batch_size % (mesh.size * microbatches):
        parts = f"{microbatches} microbatches on each of " if microbatches > 1 else ""
        raise ValueError(
            f"config.batch_size={batch_size} does not fall into equal parts for {parts}{mesh.size} "
            "devices: take a multiple, or fewer config.devices"
        )
    return mesh


def axis_of(mesh: Mesh) -> str | None:
    """The axis that a method is to combine its sums over; None on one device."""
    return AXIS if mesh.size > 1 else None


def place(mesh: Mesh, tree: PyTree, spec: PartitionSpec = WHOLE) -> PyTree:
    """Puts host arrays on the mesh, which every process has whole; each takes what it needs."""
    sharding = NamedSharding(mesh, spec)
    at = lambda array: jax.make_array_from_callback(
        np.shape(array), sharding, lambda index: np.asarray(array)[index]
    )
    return jax.tree.map(at, tree)


def own_rows(mesh: Mesh, batch_size: int) -> slice:
    """The rows of a batch that the devices of this process take."""
    sharding = NamedSharding(mesh, ROWS)
    places = sharding.addressable_devices_indices_map((batch_size,)).values()
    parts = [index[0] for index in places if index is not None]
    starts = [part.start or 0 for part in parts]
    stops = [batch_size if part.stop is None else part.stop for part in parts]
    return slice(min(starts), max(stops))


def place_own_rows(mesh: Mesh, tree: PyTree, spec: PartitionSpec) -> PyTree:
    """Puts host arrays on the mesh of which each process has only its own part."""
    sharding = NamedSharding(mesh, spec)
    return jax.tree.map(lambda array: jax.make_array_from_process_local_data(sharding, array), tree)


def map_over(mesh: Mesh, fun: Callable, in_specs: Any, out_specs: Any) -> Callable:
    """``fun`` on every device, for its rows; ``fun`` itself where there is one device only."""
    if mesh.size == 1:
        return fun
    return jax.shard_map(fun, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
