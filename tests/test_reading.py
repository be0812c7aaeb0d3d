"""Images are decoded into the same batches however many workers there are and wherever it began."""

import pickle

import numpy as np
import pytest
from PIL import Image

from har_jax.data.batches import Batches
from har_jax.data.examples import DataError
from har_jax.data.reading.decoding import center_square, decode_square, random_part
from har_jax.data.reading.encoded import ImageFiles, Reading
from har_jax.data.reading.reading import read
from tests.own_images import write_folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    write_folder(root, {"a": 6, "b": 5})
    return root


def files(root, **reading):
    paths = sorted(str(path.relative_to(root)) for path in root.glob("*/*"))
    return ImageFiles(root, np.array(paths), Reading(image_size=16, **reading))


def decoded(images, first, stop, seed=7):
    return list(read(images, Batches(len(images), 4, seed=3), first, stop, seed=seed))


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_batch_is_a_function_of_its_number(root, workers):
    plain = decoded(files(root, crop="resized_crop_and_flip"), 0, 7)
    images = files(root, crop="resized_crop_and_flip", workers=workers)
    for first in (0, 3):
        later = decoded(images, first, 7)
        assert len(later) == 7 - first
        for one, other in zip(plain[first:], later, strict=True):
            np.testing.assert_array_equal(one.images, other.images)
            np.testing.assert_array_equal(one.rows, other.rows)
    assert plain[0].images.shape == (4, 16, 16, 3)
    assert plain[0].images.dtype == np.uint8
    for number, batch in enumerate(plain):
        np.testing.assert_array_equal(batch.rows, Batches(11, 4, seed=3)(number))
        assert np.all(batch.unreadable == -1)


def test_a_part_of_each_batch_is_what_it_is_in_the_whole(root):
    images = files(root, crop="resized_crop_and_flip")
    batches = Batches(len(images), 4, seed=3)
    whole = list(read(images, batches, 0, 3, seed=7))
    for own in (slice(0, 1), slice(1, 4)):
        for one, part in zip(whole, read(images, batches, 0, 3, seed=7, own=own), strict=True):
            np.testing.assert_array_equal(part.images, one.images[own])
            np.testing.assert_array_equal(part.rows, one.rows[own])


def test_crops_change_from_epoch_to_epoch_and_centers_do_not(root):
    images = files(root, crop="resized_crop_and_flip")
    of_image = [
        batch.images[batch.rows == 0] for batch in decoded(images, 0, 22) if 0 in batch.rows
    ]
    assert len({pixels.tobytes() for pixels in of_image}) == len(of_image) == 8
    centers = decoded(images, 0, 22, seed=None)
    of_image = [batch.images[batch.rows == 0] for batch in centers if 0 in batch.rows]
    assert len({pixels.tobytes() for pixels in of_image}) == 1
    path = images.root / images.paths[0]
    np.testing.assert_array_equal(of_image[0][0], decode_square(path, 16, center_square))


def test_parts_of_images(tmp_path):
    gradient = np.tile(np.arange(0, 256, 2, dtype=np.uint8), (96, 1))
    path = tmp_path / "gradient.png"
    Image.fromarray(np.stack([gradient] * 3, -1)).save(path)
    left, top, right, bottom = center_square(128, 96)
    assert (right - left, bottom - top) == (84, 84)
    assert (left + right, top + bottom) == (128, 96)
    pixels = decode_square(path, 21, center_square)
    np.testing.assert_allclose(pixels[0, :, 0], 2 * (left + 4 * np.arange(21) + 1.5), atol=3)
    rng = np.random.default_rng(0)
    for width, height in ((128, 96), (10, 1000), (1, 1)):
        for _ in range(200):
            left, top, right, bottom = random_part(rng, width, height)
            assert -1e-9 <= left < right <= width + 1e-9
            assert -1e-9 <= top < bottom <= height + 1e-9
            if width == 128:
                assert 0.08 - 1e-9 <= (right - left) * (bottom - top) / (128 * 96) <= 1
                assert 3 / 4 - 1e-9 <= (right - left) / (bottom - top) <= 4 / 3 + 1e-9


def test_large_jpegs_are_shrunk_while_they_are_decoded(tmp_path):
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (6, 8, 3), np.uint8)
    large = Image.fromarray(small).resize((1600, 1200), Image.Resampling.BICUBIC)
    large.save(tmp_path / "large.jpg", quality=95)
    large.save(tmp_path / "large.png")
    one, other = (
        decode_square(tmp_path / f"large.{kind}", 64, center_square).astype(int)
        for kind in ("jpg", "png")
    )
    assert np.abs(one - other).mean() < 4


class TestUnreadable:
    @pytest.fixture
    def images(self, root, tmp_path):
        write_folder(tmp_path, {"a": 6, "b": 5})
        whole = (tmp_path / "a" / "002.jpg").read_bytes()
        (tmp_path / "a" / "002.jpg").write_bytes(whole[: len(whole) // 2])
        (tmp_path / "b" / "001.png").write_bytes(b"")
        return lambda **reading: files(tmp_path, **reading)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_is_named(self, images, workers):
        message = r"(002.jpg|001.png) cannot be decoded \(\w+: .*on_unreadable=skip"
        with pytest.raises(DataError, match=message):
            decoded(images(workers=workers), 0, 3)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_is_replaced_with_what_it_is_told(self, images, workers):
        with pytest.warns(UserWarning, match="cannot be decoded .* it and others like it are left"):
            batches = decoded(images(workers=workers, on_unreadable="skip"), 0, 11)
        rows = np.concatenate([batch.rows for batch in batches])
        wanted = np.concatenate([Batches(11, 4, seed=3)(number) for number in range(11)])
        bad = np.isin(wanted, (2, 7))
        assert np.sum(bad) == 8
        np.testing.assert_array_equal(rows, np.where(bad, wanted + 1, wanted))
        unreadable = np.concatenate([batch.unreadable for batch in batches])
        np.testing.assert_array_equal(unreadable, np.where(bad, wanted, -1))

    def test_if_all_are(self, tmp_path):
        (tmp_path / "a").mkdir()
        for number in range(2):
            (tmp_path / "a" / f"{number}.png").touch()
        images = files(tmp_path, on_unreadable="skip")
        with pytest.raises(DataError, match=r"^none of 2 images in .* can be decoded$"):
            decoded(images, 0, 1)


def test_batches_can_be_sent_to_workers():
    batches = Batches(11, 4, seed=3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(batches))(5), batches(5))
