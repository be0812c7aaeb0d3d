"""Images on the device, inside the step: random changes in training, and normalization."""

import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from har_jax.methods.base import Augment


def random_shift(
    key: PRNGKeyArray, images: Num[Array, "B H W C"], *, pixels: int
) -> Num[Array, "B H W C"]:
    """Moves each image by up to ``pixels`` in both directions, filling up with zeros.

    The same as a random crop of the image's own size out of one padded by ``pixels``.
    """
    batch, height, width, channels = images.shape
    margin = ((0, 0), (pixels, pixels), (pixels, pixels), (0, 0))
    padded = jnp.pad(images, margin)
    offsets = jax.random.randint(key, (batch, 2), 0, 2 * pixels + 1)
    crop = lambda image, offset: jax.lax.dynamic_slice(
        image, (offset[0], offset[1], 0), (height, width, channels)
    )
    return jax.vmap(crop)(padded, offsets)


def random_flip(key: PRNGKeyArray, images: Num[Array, "B H W C"]) -> Num[Array, "B H W C"]:
    """Mirrors each image, left to right, with probability one half."""
    flipped = jax.random.bernoulli(key, shape=(images.shape[0], 1, 1, 1))
    return jnp.where(flipped, images[:, :, ::-1], images)


def crop_and_flip(key: PRNGKeyArray, images: Num[Array, "B H W C"]) -> Num[Array, "B H W C"]:
    """A random crop out of the image padded by 4 zeros, then a random flip (He et al. 2016)."""
    crop_key, flip_key = jax.random.split(key)
    return random_flip(flip_key, random_shift(crop_key, images, pixels=4))


AUGMENTATIONS: Mapping[str, Augment | None] = {
    "none": None,
    "shift1": functools.partial(random_shift, pixels=1),
    "flip": random_flip,
    "crop_and_flip": crop_and_flip,
}
"""The augmentations that a config can name."""


def normalizer(
    mean: Sequence[float] | None, std: Sequence[float] | None
) -> Callable[[Num[Array, "B ..."]], Float[Array, "B ..."]]:
    """The function that makes inputs ready for a network, after augmentation.

    Integers in [0, 255] become floats in [0, 1]; floats stay as they are. Then the mean is
    subtracted and the result divided by the standard deviation.

    Args:
      mean: Of each channel, the last axis, where inputs are in [0, 1]; 0 where not given.
      std: As ``mean``; 1 where not given.

    Example:
      >>> normalizer(mean=(0.5,), std=(0.25,))(jnp.array([[0, 255]], jnp.uint8)[..., None])[..., 0]
      Array([[-2.,  2.]], dtype=float32)
    """

    def normalize(inputs):
        if jnp.issubdtype(inputs.dtype, jnp.integer):
            inputs = inputs.astype(jnp.float32) / 255
        if mean is not None:
            inputs = inputs - jnp.asarray(mean, inputs.dtype)
        if std is not None:
            inputs = inputs / jnp.asarray(std, inputs.dtype)
        return inputs

    return normalize
