"""Image files of any kind to 8-bit pixels."""

import contextlib
import io
import math
import os
from collections.abc import Callable, Iterator
from typing import IO, Literal

import numpy as np
from jaxtyping import UInt8
from PIL import ExifTags, Image

Crop = Literal["center", "resized_crop_and_flip"]
CROPS = ("resized_crop_and_flip",)  # those that change with every look at an image
Box = tuple[float, float, float, float]
File = str | os.PathLike[str] | IO[bytes] | bytes

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_TURNED_BACK = {  # what undoes each value of EXIF's orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")
_MARGIN = 256 / 224  # of the square whose centre is taken: Krizhevsky et al. 2012


def decode_image(file: File, channels: int = 3) -> UInt8[np.ndarray, "H W C"]:
    """Decodes an image, whatever its colours are stored as.

    Grey values are repeated in colours, palettes and CMYK are converted, transparency is dropped
    where there is no channel for it, of 16 bits the upper 8 are kept, and an image that a camera
    marked as turned (EXIF) is turned back.

    Args:
      file: Its path, the open file, or what is in it.
      channels: 1 (grey), 3 (RGB) or 4 (RGBA).

    Returns:
      ``[H, W, channels]`` in [0, 255].

    Raises:
      OSError: if it is no image, or cut.
      ValueError: if its pixels are numbers without a range: 32 bits, or floating point.
    """
    with _open(file) as image:
        pixels = np.asarray(_converted(image, channels))
    return pixels.reshape(*pixels.shape[:2], channels)


def decode_square(
    file: File, size: int, choose: Callable[[int, int], Box]
) -> UInt8[np.ndarray, "size size 3"]:
    """Decodes a part of an image as a square of colours, bilinearly resized.

    Args:
      file: As :func:`decode_image` has it; so are the errors.
      size: The height and the width of the result.
      choose: ``(width, height) -> (left, top, right, bottom)``, the part, in pixels.
    """
    with _open(file) as image:
        width, height = image.size
        left, top, right, bottom = choose(width, height)
        # JPEG is decoded at a half or less where the part stays large enough.
        scale = size / min(right - left, bottom - top)
        image.draft("RGB", (math.ceil(width * scale), math.ceil(height * scale)))
        across, down = image.width / width, image.height / height
        box = (left * across, top * down, right * across, bottom * down)
        resized = _converted(image, 3).resize((size, size), Image.Resampling.BILINEAR, box)
    return np.asarray(resized)


def decode_thumbnail(file: File, size: int) -> UInt8[np.ndarray, "H W 3"]:
    """Decodes an image whole, made smaller until neither side has more than ``size`` pixels.

    Args:
      file: As :func:`decode_image` has it; so are the errors.
      size: Of the longer side, at most.
    """
    with _open(file) as image:
        image.draft("RGB", (size, size))
        small = _converted(image, 3)
        small.thumbnail((size, size))
    return np.asarray(small)


def center_square(width: int, height: int) -> Box:
    """The part of an image that is evaluated: 224/256 of its shorter side, in its middle."""
    return _middle(width, height, min(width, height) / _MARGIN)


def random_part(rng: np.random.Generator, width: int, height: int) -> Box:
    """A part of 8% to 100% of an image, 3/4 to 4/3 as wide as high (Szegedy et al. 2015)."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if w <= width and h <= height:
            left, top = rng.uniform(0, width - w), rng.uniform(0, height - h)
            return left, top, left + w, top + h
    # Of an image that is much wider than high, or the reverse.
    return _middle(width, height, min(width, height))


def _middle(width: int, height: int, side: float) -> Box:
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


@contextlib.contextmanager
def _open(file: File) -> Iterator[Image.Image]:
    with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
        orientation = 1
        with contextlib.suppress(Exception):  # of EXIF that is damaged: it is of no other use
            orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
        back = _TURNED_BACK.get(orientation)
        yield image if back is None else image.transpose(back)


def _converted(image: Image.Image, channels: int) -> Image.Image:
    if image.mode in _SIXTEEN_BITS or (image.mode == "I" and image.format in ("PNG", "PPM")):
        image = Image.fromarray((np.asarray(image).astype(np.int64) // 256).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError(
            f"its pixels are of mode {image.mode}, which has no range: store 8 or 16 bits"
        )
    elif "transparency" in image.info:  # a palette's, for which Pillow has a way of its own
        image = image.convert("RGBA")
    return image.convert(_MODES[channels])
