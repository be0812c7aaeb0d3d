"""Images that stay encoded, in files, until they are needed."""

import abc
import dataclasses
import functools
import hashlib
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal, Self

import numpy as np
from jaxtyping import Int

from har_jax.data.examples import DataError
from har_jax.data.reading.decoding import Crop, File
from har_jax.options import Option
from har_jax.system.interruption import checked

OnUnreadable = Literal["stop", "skip"]
"""What to do with an image that cannot be decoded."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """How images are read.

    Attributes:
      image_size: Their height and width, after cropping and resizing.
      crop: What training takes of an image; evaluation takes the center.
      workers: Processes that decode; 0 decodes in threads of this one.
      on_unreadable: What an image leads to that cannot be decoded: an error that names it, or
        that the next one takes its place in the batch and that it is counted.
    """

    image_size: Annotated[
        int, Option("to which images in files are resized", ge=8, le=4096, unit="pixels")
    ] = 224
    crop: Crop = "center"
    workers: Annotated[
        int,
        Option("processes that decode images; 0: threads of this one", ge=0, le=1000, place=True),
    ] = 0
    on_unreadable: Annotated[
        OnUnreadable, Option("what to do with files that cannot be decoded", place=True)
    ] = "stop"


class EncodedImages(abc.ABC):
    """The inputs of a data set, ``[n, size, size, 3]`` uint8, which are not decoded yet.

    Can be sent to other processes.

    Attributes:
      reading: How they are read.
      place: Where they lie.
      names: ``[n]``, what each is called there.
    """

    reading: Reading

    @property
    @abc.abstractmethod
    def place(self) -> pathlib.Path: ...

    @property
    @abc.abstractmethod
    def names(self) -> Sequence[str]: ...

    @abc.abstractmethod
    def __getitem__(self, index: Int[np.ndarray, " m"], /) -> Self: ...

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def file(self, index: int) -> File:
        """What :func:`har_jax.data.reading.decoding.decode_square` takes."""

    @abc.abstractmethod
    def sizes(self) -> Int[np.ndarray, " n"]:
        """``[n]``, of each image in bytes; -1 of one that is not there, and may be skipped."""

    @abc.abstractmethod
    def middles(self, rows: Iterable[int], size: int) -> Iterator[bytes | None]:
        """So many bytes from the middle of encoded images; all of those that have no more.

        None of one that cannot be read.
        """

    @abc.abstractmethod
    def checksum(self) -> bytes:
        """Of what is known of the images without reading them."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self), self.reading.image_size, self.reading.image_size, 3


@dataclasses.dataclass(frozen=True)
class ImageFiles(EncodedImages):
    """Images in a file each.

    Attributes:
      root: The folder that paths are relative to.
      paths: ``[n]`` strings.
      reading: How they are read.
    """

    root: pathlib.Path
    paths: np.ndarray
    reading: Reading

    @property
    def place(self) -> pathlib.Path:
        return self.root

    @property
    def names(self) -> Sequence[str]:
        return self.paths.tolist()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Int[np.ndarray, " m"]) -> Self:
        part = dataclasses.replace(self, paths=self.paths[index])
        if "_sizes" in vars(self):  # files are asked for their sizes once, whoever takes some
            vars(part)["_sizes"] = self._sizes[index]
        return part

    def file(self, index: int) -> File:
        return self.root / self.paths[index]

    def sizes(self) -> Int[np.ndarray, " n"]:
        """Of the files.

        Raises:
          DataError: if one is not there or empty, and such files are not to be skipped.
        """
        return self._sizes

    @functools.cached_property
    def _sizes(self) -> np.ndarray:
        root, sizes = str(self.root), np.full(len(self), -1, np.int64)
        for index, path in enumerate(checked(self.names)):
            file = os.path.join(root, path)
            try:
                sizes[index] = os.stat(file).st_size
            except OSError as error:
                if self.reading.on_unreadable == "stop":
                    raise DataError(f"{file} cannot be found: {error.strerror}") from error
            if sizes[index] == 0 and self.reading.on_unreadable == "stop":
                raise DataError(
                    f"{file} is empty: remove it, or leave such files out with "
                    "config.data.on_unreadable=skip"
                )
        return sizes

    def middles(self, rows: Iterable[int], size: int) -> Iterator[bytes | None]:
        root, names, sizes = str(self.root), self.names, self.sizes().tolist()
        for row in rows:
            try:
                file = os.open(os.path.join(root, names[row]), os.O_RDONLY)
                try:
                    most = min(size, sizes[row])
                    yield os.pread(file, most, (sizes[row] - most) // 2)
                finally:
                    os.close(file)
            except OSError:
                yield None

    def checksum(self) -> bytes:
        """Of the files' names and sizes."""
        sha = hashlib.sha256()
        for path, size in zip(self.names, self.sizes().tolist(), strict=True):
            sha.update(f"{path}\0{size}\0".encode())
        return sha.digest()
