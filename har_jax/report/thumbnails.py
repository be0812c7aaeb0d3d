"""Training examples as small pictures, in the page or in files beside it."""

import base64
import io
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from PIL import Image

from har_jax.data.examples import Examples
from har_jax.data.reading.decoding import decode_thumbnail
from har_jax.data.reading.encoded import EncodedImages
from har_jax.system import interruption
from har_jax.system.files import write_by

SIZE = 96  # pixels of the longer side, at most
MOST = 3_000_000  # bytes of pictures that the page has room for; others lie beside it
FOLDER = "gallery"

_LOSSLESS = 40  # pixels of the longer side, up to which PNG is as small as JPEG
_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}


class Picture(NamedTuple):
    """What an ``<img>`` shows.

    Attributes:
      source: A ``data:`` URI, or the path of a file from the page's folder.
      width, height: In pixels.
    """

    source: str
    width: int
    height: int


class Thumbnails:
    """Makes pictures of the training examples, as long as there is room in the page.

    Args:
      train: The examples.
      folder: Of the page; what it has no room for is written below it.
      most: Bytes that the page has room for.
    """

    def __init__(self, train: Examples, folder: pathlib.Path, most: int = MOST) -> None:
        self._pixels_of = _reader(train)
        self._folder, self._left = folder, most
        self._made: dict[int, Picture | None] = {}

    def of(self, row: int) -> Picture | None:
        """That of one example; None where it is no image, or cannot be read."""
        interruption.check()
        if row not in self._made:
            self._made[row] = self._make(row)
        return self._made[row]

    def _make(self, row: int) -> Picture | None:
        if self._pixels_of is None:
            return None
        try:
            pixels = self._pixels_of(row)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None  # which training has counted already
        height, width = pixels.shape[:2]
        kind = "png" if max(height, width) <= _LOSSLESS else "jpeg"
        buffer = io.BytesIO()
        image = Image.fromarray(pixels)
        if kind == "png":
            image.save(buffer, "png", optimize=True)
        else:
            image.convert("RGB").save(buffer, "jpeg", quality=80, optimize=True)
        content = buffer.getvalue()
        uri = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
        if len(uri) <= self._left:
            self._left -= len(uri)
            return Picture(uri, width, height)
        path = pathlib.Path(FOLDER) / f"{row}.{kind}"
        (self._folder / FOLDER).mkdir(exist_ok=True)
        write_by(self._folder / path, lambda file: file.write(content))
        return Picture(path.as_posix(), width, height)


def _reader(train: Examples) -> Callable[[int], np.ndarray] | None:
    """What gives the pixels of an example, 8 bits of one, three or four channels."""
    inputs = train.inputs
    if isinstance(inputs, EncodedImages):
        return lambda row: decode_thumbnail(inputs.file(row), SIZE)
    if train.texts is not None or len(inputs.shape) != 4 or inputs.shape[-1] not in _CHANNELS:
        return None
    low, high = _range(inputs[:])

    def pixels(row: int) -> np.ndarray:
        scaled = (np.asarray(inputs[row], np.float64) - low) * (255 / (high - low))
        shades = np.round(np.clip(scaled, 0, 255)).astype(np.uint8)
        image = Image.fromarray(shades[..., 0] if shades.shape[-1] == 1 else shades)
        image.thumbnail((SIZE, SIZE))
        return np.asarray(image)

    return pixels


def _range(inputs: np.ndarray) -> tuple[float, float]:
    """The numbers that stand for black and for white."""
    if inputs.dtype == np.uint8:
        return 0.0, 255.0
    low, high = float(inputs.min()), float(inputs.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low, low + 1)
