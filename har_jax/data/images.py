"""Images on the device, inside the step: random changes in training, and normalization."""

import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from har_jax.methods.shared.single_network import Augment


def random_shift(
    key: PRNGKeyArray, image: Num[Array, "H W C"], *, pixels: int
) -> Num[Array, "H W C"]:
    """Moves an image by up to ``pixels`` in both directions, filling up with zeros.

    The same as a random crop of the image's own size out of one padded by ``pixels``.
    """
    padded = jnp.pad(image, ((pixels, pixels), (pixels, pixels), (0, 0)))
    down, right = jax.random.randint(key, (2,), 0, 2 * pixels + 1)
    return jax.lax.dynamic_slice(padded, (down, right, 0), image.shape)


def random_flip(key: PRNGKeyArray, image: Num[Array, "H W C"]) -> Num[Array, "H W C"]:
    """Mirrors an image, left to right, with probability one half."""
    return jnp.where(jax.random.bernoulli(key), image[:, ::-1], image)


def crop_and_flip(key: PRNGKeyArray, image: Num[Array, "H W C"]) -> Num[Array, "H W C"]:
    """A random crop out of the image padded by 4 zeros, then a random flip (He et al. 2016)."""
    crop_key, flip_key = jax.random.split(key)
    return random_flip(flip_key, random_shift(crop_key, image, pixels=4))


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
