"""Images that stay in the records of a prepared set until they are needed."""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from jaxtyping import Int

from har_jax.data.reading.encoded import EncodedImages, Reading


@dataclasses.dataclass(frozen=True)
class ImageRecords(EncodedImages):
    """Images of a prepared set of TFDS, still in its records.

    Attributes:
      folder: Of the set.
      split: In which they are.
      key: The feature that they are.
      rows: ``[n]``, which examples of the split.
      lengths: ``[n]``, the size of each, in bytes.
      reading: How they are read.
    """

    folder: pathlib.Path
    split: str
    key: str
    rows: Int[np.ndarray, " n"]
    lengths: Int[np.ndarray, " n"]
    reading: Reading

    @property
    def place(self) -> pathlib.Path:
        return self.folder

    @property
    def names(self) -> Sequence[str]:
        return [f"{self.split}/{row}" for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Int[np.ndarray, " m"]) -> Self:
        return dataclasses.replace(self, rows=self.rows[index], lengths=self.lengths[index])

    def file(self, index: int) -> bytes:
        record: Mapping[str, bytes] = _opened(self.folder, self.split, self.key)[self.rows[index]]
        return record[self.key]

    def sizes(self) -> Int[np.ndarray, " n"]:
        return self.lengths

    def middles(self, rows: Iterable[int], size: int) -> Iterator[bytes | None]:
        for row in rows:
            whole = self.file(row)
            start = max(0, len(whole) - size) // 2
            yield whole[start : start + size]

    def checksum(self) -> bytes:
        """Of the names and sizes of the set's files, and of the rows."""
        files = sorted(self.folder.glob(f"*-{self.split}.*"))
        sizes = [f"{path.name}\0{path.stat().st_size}" for path in files]
        sha = hashlib.sha256("\0".join([self.folder.name, *sizes]).encode())
        sha.update(np.ascontiguousarray(self.rows).data)
        return sha.digest()


@functools.lru_cache(maxsize=8)
def _opened(folder: pathlib.Path, split: str, key: str) -> Any:
    """A split's examples, opened once in every process."""
    import tensorflow_datasets as tfds

    return open_split(tfds.builder_from_directory(folder), split, (key,))


def open_split(builder: Any, split: str, encoded: Sequence[str]) -> Any:
    """A split's examples by row; some features are left encoded.

    Images are decoded here: TFDS takes OpenCV where it is installed, whose pixels may differ.
    """
    import tensorflow_datasets as tfds

    decoders = {key: tfds.decode.SkipDecoding() for key in encoded}
    return builder.as_data_source(split=split, decoders=decoders or None)
