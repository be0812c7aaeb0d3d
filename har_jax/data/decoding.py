"""Image files of any kind to 8-bit pixels."""

import io
from typing import IO

import numpy as np
from jaxtyping import UInt8
from PIL import Image

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")


def decode_image(file: bytes | IO[bytes], channels: int = 3) -> UInt8[np.ndarray, "H W C"]:
    """Decodes an image, whatever its colours are stored as.

    Grey values are repeated in colours, palettes and CMYK are converted, transparency is dropped
    where there is no channel for it, and of 16 bits the upper 8 are kept.

    Args:
      file: What is in the file, or the file.
      channels: 1 (grey), 3 (RGB) or 4 (RGBA).

    Returns:
      ``[H, W, channels]`` in [0, 255].

    Raises:
      OSError: if it is no image, or cut.
      ValueError: if its pixels are numbers without a range: 32 bits, or floating point.
    """
    with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
        if image.mode in _SIXTEEN_BITS or (image.mode == "I" and image.format == "PNG"):
            upper = (np.asarray(image).astype(np.int64) // 256).astype(np.uint8)
            pixels = np.asarray(Image.fromarray(upper).convert(_MODES[channels]))
        elif image.mode in ("I", "F"):
            raise ValueError(
                f"its pixels are of mode {image.mode}, which has no range: store 8 or 16 bits"
            )
        elif "transparency" in image.info:  # a palette's, for which Pillow has a way of its own
            pixels = np.asarray(image.convert("RGBA").convert(_MODES[channels]))
        else:
            pixels = np.asarray(image.convert(_MODES[channels]))
    return pixels.reshape(*pixels.shape[:2], channels)
