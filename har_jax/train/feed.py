"""How batches come to the devices: from arrays that lie there, or out of files."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Int, PyTree

from har_jax.data.batches import Batches
from har_jax.data.reading.encoded import EncodedImages
from har_jax.data.reading.reading import Decoded, read
from har_jax.methods.shared.method import Batch
from har_jax.system import seeds
from har_jax.train.mesh import ROWS_OF_STEPS, own_rows, place, place_own_rows

Rows = Callable[[int], Int[np.ndarray, " B"]]
"""``step -> [B]``, the indices of the examples in its batch."""

Order = Callable[[Int[np.ndarray, " n"], int, int], Rows]
"""``(labels, B, seed) -> rows``, such as :class:`har_jax.data.ReversedBatches`."""


def in_epochs(labels: Int[np.ndarray, " n"], batch_size: int, seed: int) -> Rows:
    """Every example is seen equally often, see :class:`har_jax.data.Batches`."""
    return Batches(len(labels), batch_size, seed)


class Feed(Protocol):
    """The batches of a run, each a function of the seed and the step.

    Attributes:
      most: How many steps can be sent at once.
      resident: What lies on every device all the time.
    """

    most: int
    resident: PyTree

    def example(self) -> dict[str, Any]:
        """A batch's arrays, or arrays of their shapes."""
        ...

    def send(self, step: int, count: int, most: int) -> PyTree:
        """What is sent for the batches of ``count`` steps, arrays ``[most, B, ...]``."""
        ...

    def batch(self, resident: PyTree, sent: PyTree) -> Batch:
        """A batch, on the device, from what is sent for its step; ``index``: which examples."""
        ...


class Beside(NamedTuple):
    """Other examples, of which every step sees some beside its batch.

    Attributes:
      data: As :func:`open_feed` takes it. Arrays that a batch is made of, too, lie on the devices
        once.
      rows: How many are seen at each step, over all devices.
      order: Which they are.
    """

    data: Mapping[str, Any]
    rows: int
    order: Order = in_epochs


def open_feed(
    data: Mapping[str, Any],
    batch_size: int,
    seed: int,
    mesh: Mesh,
    steps: range,
    beside: Mapping[str, Beside] | None = None,
) -> Feed:
    """The feed of a data set.

    Args:
      data: Arrays ``[n, ...]``; ``inputs`` may be
        :class:`har_jax.data.reading.encoded.EncodedImages`.
      batch_size: Of all devices together.
      seed: Of the order of the examples, and of what is taken of images in files.
      mesh: The devices.
      steps: Those that will be asked for, in order.
      beside: Others by name, in an order of their own; a batch has their arrays, too, as
        ``NAME_inputs``, ``NAME_labels`` and ``NAME_index``.
    """
    put = _Once(mesh)

    def feed_of(part: Beside, seed: int) -> Feed:
        rows = part.order(part.data["labels"], part.rows, seeds.derive(seed, "batches"))
        if isinstance(part.data["inputs"], EncodedImages):
            return _Streamed(part.data, rows, part.rows, seed, mesh, steps, put)
        return _Resident(part.data, rows, part.rows, mesh, put)

    feed = feed_of(Beside(data, batch_size), seed)
    for name, other in (beside or {}).items():
        feed = _Together(feed, name, feed_of(other, seeds.derive(seed, name)))
    return feed


class _Once:
    """Puts arrays on the devices; one that is there already is not put there again."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._there: dict[int, tuple[np.ndarray, Array]] = {}

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Array]:
        for array in arrays.values():
            if id(array) not in self._there:  # with the array, whose id is no other's then
                self._there[id(array)] = array, place(self._mesh, array)
        return {name: self._there[id(array)][1] for name, array in arrays.items()}


class _Together:
    """Batches that have rows of two feeds, those of the second under names of their own."""

    def __init__(self, feed: Feed, name: str, other: Feed) -> None:
        self._feeds, self._name = (feed, other), name
        self.most = min(feed.most, other.most)
        self.resident = feed.resident, other.resident

    def example(self) -> dict[str, Any]:
        return self._join(*(feed.example() for feed in self._feeds))

    def send(self, step: int, count: int, most: int) -> PyTree:
        return tuple(feed.send(step, count, most) for feed in self._feeds)

    def batch(self, resident: PyTree, sent: PyTree) -> Batch:
        return self._join(*map(lambda feed, *args: feed.batch(*args), self._feeds, resident, sent))

    def _join(self, batch: Batch, other: Batch) -> dict[str, Any]:
        return {**batch, **{f"{self._name}_{key}": rows for key, rows in other.items()}}


class _Resident:
    """All data are on the devices, and the host sends indices."""

    most = 10**6

    def __init__(
        self,
        data: Mapping[str, np.ndarray],
        batches: Rows,
        batch_size: int,
        mesh: Mesh,
        put: _Once,
    ) -> None:
        self._data, self._batch_size, self._mesh = data, batch_size, mesh
        self._batches = batches
        self.resident = put(data)

    def example(self) -> dict[str, Any]:
        first = self._batches(0)
        return {"index": first, **{name: array[first] for name, array in self._data.items()}}

    def send(self, step: int, count: int, most: int) -> PyTree:
        indices = np.zeros((most, self._batch_size), np.int32)
        indices[:count] = [self._batches(step + ahead) for ahead in range(count)]
        return place(self._mesh, indices, ROWS_OF_STEPS)

    def batch(self, resident: PyTree, sent: PyTree) -> Batch:
        return {"index": sent, **{name: array[sent] for name, array in resident.items()}}


class _Streamed:
    """Images are decoded on the host; what else there is lies on the devices."""

    most = 1

    def __init__(
        self,
        data: Mapping[str, Any],
        batches: Rows,
        batch_size: int,
        seed: int,
        mesh: Mesh,
        steps: range,
        put: _Once,
    ) -> None:
        self._files: EncodedImages = data["inputs"]
        self._rest = {name: array for name, array in data.items() if name != "inputs"}
        self._mesh, self._batches = mesh, batches
        self._batch_size, self._seed, self._steps = batch_size, seed, steps
        self._decoded: Iterator[Decoded] | None = None
        self.resident = put(self._rest)

    def example(self) -> dict[str, Any]:
        first = self._batches(0)
        images = np.zeros((self._batch_size, *self._files.shape[1:]), np.uint8)
        rest = {name: array[first] for name, array in self._rest.items()}
        return {"inputs": images, "index": first, **rest}

    def send(self, step: int, count: int, most: int) -> PyTree:
        if self._decoded is None:
            self._decoded = read(
                self._files,
                self._batches,
                step,
                self._steps.stop,
                seed=seeds.derive(self._seed, "crops"),
                own=own_rows(self._mesh, self._batch_size),
            )
        decoded = next(self._decoded)
        one_step = decoded.images[np.newaxis], decoded.rows[np.newaxis]
        return place_own_rows(self._mesh, one_step, ROWS_OF_STEPS)

    def batch(self, resident: PyTree, sent: PyTree) -> Batch:
        images, index = sent
        rest = {name: array[index] for name, array in resident.items()}
        return {"inputs": images, "index": index, **rest}
