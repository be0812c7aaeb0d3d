"""Encoded images are read in the order of a seed, and decoded ahead, in threads or processes."""

import dataclasses
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from absl import flags
from jaxtyping import Int, UInt8

from har_jax.data.examples import DataError
from har_jax.data.reading.decoding import File, center_square, decode_square, random_part
from har_jax.data.reading.encoded import EncodedImages, Reading
from har_jax.system.interruption import SIGNALS, end_with_parent

_AHEAD = 4  # batches that are decoded before they are asked for


class Decoded(NamedTuple):
    """A batch of images.

    Attributes:
      images: ``[b, size, size, 3]``.
      rows: ``[b]``, which image each is.
      unreadable: ``[b]``, the image in whose place it is, for lack of a better one; -1 if none.
    """

    images: UInt8[np.ndarray, "b size size 3"]
    rows: Int[np.ndarray, " b"]
    unreadable: Int[np.ndarray, " b"]


def read(
    images: EncodedImages,
    rows_of: Callable[[int], Int[np.ndarray, " b"]],
    first: int,
    stop: int,
    *,
    seed: int | None,
    own: slice = slice(None),
) -> Iterator[Decoded]:
    """Decodes batches, some of them ahead, in threads or processes.

    What a row of a batch holds is a function of the other arguments and of its place alone: not of
    the number of workers, nor of where the reading began, nor of what else is read here.

    Args:
      images: What is read.
      rows_of: ``batch -> [b]``, which images are in a batch; it is sent to workers.
      first: The first batch.
      stop: The batch after the last.
      seed: Of the crops; None takes the center of each image.
      own: The rows of each batch that are read here; all by default.

    Raises:
      DataError: if a file cannot be decoded, and such files are not to be skipped.
    """
    import grain  # here, since configs and flags need none of it

    source = _Rows(rows_of, range(len(rows_of(first)))[own], first, stop)
    batches: Any = (
        grain.MapDataset.source(source)
        .map(_Decode(images, seed))
        .batch(len(source.own), batch_fn=_stack)
        .to_iter_dataset(
            grain.ReadOptions(num_threads=os.cpu_count() or 1, prefetch_buffer_size=_AHEAD)
        )
    )
    if images.reading.workers:
        if not flags.FLAGS.is_parsed():  # Grain has flags, and asks for them
            flags.FLAGS.mark_as_parsed()
        options = grain.MultiprocessingOptions(
            num_workers=images.reading.workers, per_worker_buffer_size=_AHEAD
        )
        # Through pipes, not shared memory: containers have little of that, and some stayed behind.
        pipes = grain.experimental.DatasetOptions(min_shm_size=sys.maxsize)
        batches = grain.experimental.WithOptionsIterDataset(batches, pipes)
        batches = batches.mp_prefetch(options, worker_init_fn=_begin_worker)
    told = False
    for batch in _alive(batches):
        if np.any(batch.unreadable >= 0) and not told:
            problem = _problem(images, batch.unreadable)
            if images.reading.on_unreadable == "stop":
                raise DataError(
                    f"{problem}: repair or remove it, or leave such files out with "
                    "config.data.on_unreadable=skip"
                )
            warnings.warn(f"{problem}: it and others like it are left out", stacklevel=2)
            told = True
        yield batch


def _begin_worker(*_: int) -> None:
    """Leaves signals to the process that asks for images, and ends with it, however it ends."""
    for number in SIGNALS:  # which a scheduler sends to all processes of a job
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()


def _alive(batches: Iterable[Decoded]) -> Iterator[Decoded]:
    iterator: Any = iter(batches)
    try:
        yield from iterator
    except DataError as error:  # without what Grain says beside it
        raise DataError(str(error).partition("\n")[0]) from error
    except RuntimeError as error:  # Grain's word for a process that is gone
        raise DataError(
            f"a process that decodes images has ended ({error}): memory may be short; take fewer "
            "config.data.workers"
        ) from error
    finally:
        iterator.close()  # which ends its threads and processes


@dataclasses.dataclass(frozen=True)
class _Rows:
    """The images of all batches, one after the other, for Grain to take by position."""

    rows_of: Callable[[int], np.ndarray]
    own: range
    first: int
    stop: int

    def __len__(self) -> int:
        return (self.stop - self.first) * len(self.own)

    def __getitem__(self, position: int) -> tuple[int, int, int]:
        batch, place = divmod(position, len(self.own))
        batch, row = batch + self.first, self.own[place]
        return batch, row, int(self.rows_of(batch)[row])


@dataclasses.dataclass(frozen=True)
class _Decode:
    images: EncodedImages
    seed: int | None

    def __call__(self, place: tuple[int, int, int]) -> tuple[np.ndarray, int, int]:
        batch, row, wanted = place
        reading = self.images.reading
        for ahead in range(len(self.images)):
            index = (wanted + ahead) % len(self.images)
            rng = None if self.seed is None else np.random.default_rng([self.seed, batch, row])
            try:
                pixels = _decode(self.images.file(index), reading, rng)
            except Exception:  # Pillow has many types for a damaged file
                if reading.on_unreadable == "stop":  # named by who asked for it
                    return (
                        np.zeros((reading.image_size, reading.image_size, 3), np.uint8),
                        index,
                        index,
                    )
                continue
            return pixels, index, wanted if ahead else -1
        raise DataError(f"none of {len(self.images)} images in {self.images.place} can be decoded")


def _decode(
    file: File, reading: Reading, rng: np.random.Generator | None
) -> UInt8[np.ndarray, "size size 3"]:
    if rng is None or reading.crop == "center":
        return decode_square(file, reading.image_size, center_square)
    flip = rng.random() < 0.5
    pixels = decode_square(file, reading.image_size, lambda *size: random_part(rng, *size))
    return pixels[:, ::-1] if flip else pixels


def _stack(decoded: list[tuple[np.ndarray, int, int]]) -> Decoded:
    images, index, unreadable = zip(*decoded, strict=True)
    return Decoded(np.stack(images), np.array(index, np.int32), np.array(unreadable, np.int32))


def _problem(images: EncodedImages, unreadable: np.ndarray) -> str:
    """What is wrong with the first of a batch's images that cannot be decoded."""
    index = int(unreadable[unreadable >= 0][0])
    try:
        decode_square(images.file(index), images.reading.image_size, center_square)
        reason = "it could not be read a moment ago"
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    return f"{images.place / images.names[index]} cannot be decoded ({reason})"
