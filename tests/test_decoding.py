"""Every kind of image file becomes 8-bit pixels of as many channels as are asked for."""

import io
import struct

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from har_jax.data.reading.decoding import decode_image, decode_square

RED = Image.new("RGB", (4, 3), (200, 40, 60))


def encoded(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        *[(mode, "png") for mode in ("RGB", "P", "RGBA")],
        *[(mode, "jpeg") for mode in ("RGB", "CMYK", "YCbCr")],
        ("RGB", "gif"),
        ("RGB", "webp"),
        ("LAB", "tiff"),
    ],
)
def test_colours_are_kept(mode, kind):
    if mode == "LAB":
        image = Image.new("LAB", (4, 3), (117, 188, 153))  # about RED
        expected = np.array(image.convert("RGB"))[0, 0]
    else:
        image = RED.quantize() if mode == "P" else RED.convert(mode)
        expected = (200, 40, 60)
    pixels = decode_image(encoded(image, kind))
    assert pixels.shape == (3, 4, 3)
    assert pixels.dtype == np.uint8
    assert np.all(np.abs(pixels.astype(int) - expected) <= 5)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("mode", ["1", "L", "LA"])
def test_grey_values_are_kept_in_any_number_of_channels(mode, channels):
    pixels = decode_image(encoded(Image.new("L", (4, 3), 255).convert(mode), "png"), channels)
    assert pixels.shape == (3, 4, channels)
    assert np.all(pixels == 255)


@pytest.mark.parametrize("kind", ["png", "tiff", "ppm"])
def test_sixteen_bits_keep_the_upper_eight(kind):
    values = (np.arange(12).reshape(3, 4) * 5000).astype(np.uint16)
    pixels = decode_image(encoded(Image.fromarray(values), kind))
    np.testing.assert_array_equal(pixels[..., 2], values >> 8)


def test_transparent_palettes_give_no_warning():
    pixels = decode_image(encoded(RED.quantize(), "png", transparency=b"\0" * 20))
    assert np.all(np.abs(pixels.astype(int) - (200, 40, 60)) <= 5)


def test_pixels_without_a_range_are_refused():
    with pytest.raises(ValueError, match="mode F, which has no range: store 8 or 16 bits"):
        decode_image(encoded(Image.fromarray(np.ones((3, 4), np.float32)), "tiff"))


@pytest.mark.parametrize("kind", ["jpeg", "png"])
@pytest.mark.parametrize("part", [0, 0.5])
def test_a_cut_file_is_an_error(kind, part):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    whole = encoded(Image.fromarray(noise), kind)
    with pytest.raises(OSError, match=r"truncated|cannot identify|Truncated"):
        decode_image(whole[: int(part * len(whole))])


def test_exif_that_is_damaged_is_of_no_harm():
    # Turned by 90 degrees, and a resolution that is a word in place of a number.
    tags = struct.pack("<HHLHH", 0x0112, 3, 1, 6, 0) + struct.pack("<HHL4s", 0x011A, 2, 4, b"abc")
    exif = b"Exif\0\0II*\0" + struct.pack("<LH", 8, 2) + tags + bytes(4)
    assert decode_image(encoded(RED, "jpeg", exif=exif)).shape == (4, 3, 3)
    assert decode_image(encoded(RED, "jpeg", exif=b"Exif\0\0nonsense")).shape == (3, 4, 3)


@pytest.mark.parametrize("value", range(1, 9))
def test_every_orientation_is_as_pillow_has_it(value):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 3), np.uint8)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = value
    file = encoded(Image.fromarray(pixels), "png", exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))))
    np.testing.assert_array_equal(decode_image(file), expected)


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_what_a_camera_turned_is_turned_back(kind):
    upright = np.zeros((30, 20, 3), np.uint8)
    upright[:10] = 255  # light above
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # to be turned by 90 degrees, clockwise
    turned = encoded(Image.fromarray(np.rot90(upright)), kind, exif=exif, quality=95)
    pixels = decode_image(turned).astype(int)
    assert pixels.shape == upright.shape
    assert np.abs(pixels - upright).mean() < 3
    square = decode_square(turned, 20, lambda width, height: (0, 0, width, height))
    assert square[:5].mean() > 240
    assert square[9:].mean() < 15
