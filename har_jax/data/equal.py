"""Which examples are equal, by their content."""

import hashlib
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from jaxtyping import Int

from har_jax.data.examples import Inputs
from har_jax.data.reading.encoded import EncodedImages
from har_jax.data.reading.texts import are_texts
from har_jax.system.interruption import checked

_MIDDLE = 4096  # bytes of an image that are read to begin with: all of a small one
_WHOLE = 2**62


def content_ids(parts: Sequence[Inputs]) -> list[Int[np.ndarray, " n"]]:
    """Numbers the contents of several sets of examples: equal examples have one number.

    Texts are equal but for case and blanks, arrays by all values; images that are still encoded, if
    their files are, which are read as far as it takes to tell them apart: those of one size in
    their middle, and those that are the same there to their end. What is empty or cannot be read
    equals nothing.

    Args:
      parts: Inputs ``[n, ...]`` of one kind.
    """
    sizes = np.cumsum([len(part) for part in parts])[:-1]
    encoded = [part for part in parts if isinstance(part, EncodedImages)]
    if encoded:
        return np.split(_of_files(encoded), sizes)
    rows_of = lambda part: _plain(part) if are_texts(part) else _digests(part)
    contents = (row for part in parts for row in rows_of(part))
    return np.split(_number(checked(contents)), sizes)


def _number(contents: Iterable[Hashable]) -> np.ndarray:
    """A number for each content; another one for every example of none, which is ``""``."""
    seen: dict[Hashable, int] = {}
    number = lambda row, content: seen.setdefault(content or ("none", row), len(seen))
    return np.array([number(row, content) for row, content in enumerate(contents)], np.int64)


def _plain(texts: np.ndarray) -> Iterable[str]:
    return (" ".join(text.lower().split()) for text in texts)


def _digests(array: Inputs) -> Iterable[bytes]:
    rows = np.ascontiguousarray(array)
    return (_digest(row.data) for row in rows)


def _digest(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _of_files(parts: Sequence[EncodedImages]) -> np.ndarray:
    sizes = np.concatenate([part.sizes() for part in parts])
    ids = _number(np.maximum(sizes, 0).tolist())  # what is not there is as good as empty
    ids = _told_apart(ids, np.ones(len(ids), bool), parts, _MIDDLE)
    return _told_apart(ids, sizes > _MIDDLE, parts, _WHOLE)


def _told_apart(
    ids: np.ndarray, worth_reading: np.ndarray, parts: Sequence[EncodedImages], most: int
) -> np.ndarray:
    """Other numbers for images that share one with others, and of ``most`` bytes are not equal."""
    _, of_each, counts = np.unique(ids, return_inverse=True, return_counts=True)
    doubtful = (counts[of_each] > 1) & worth_reading
    numbers: dict[tuple[int, bytes | int], int] = {}
    told, next_id, first = ids.copy(), int(ids.max(initial=-1)) + 1, 0
    for part in parts:
        rows = np.flatnonzero(doubtful[first : first + len(part)])
        of_rows = zip((first + rows).tolist(), ids[first + rows].tolist(), strict=True)
        contents = part.middles(rows.tolist(), most)
        for (row, id), content in zip(of_rows, checked(contents), strict=True):
            key = row if content is None else _digest(content)  # what cannot be read equals nothing
            told[row] = numbers.setdefault((id, key), next_id + len(numbers))
        first += len(part)
    return told
