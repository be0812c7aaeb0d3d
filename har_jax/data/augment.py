"""Random changes of images, on the device, inside the step."""

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from har_jax.methods.base import Augment


def random_shift(
    key: PRNGKeyArray, images: Float[Array, "B H W C"], *, pixels: int
) -> Float[Array, "B H W C"]:
    """Moves each image by up to ``pixels`` in both directions, filling up with zeros."""
    batch, height, width, channels = images.shape
    margin = ((0, 0), (pixels, pixels), (pixels, pixels), (0, 0))
    padded = jnp.pad(images, margin)
    offsets = jax.random.randint(key, (batch, 2), 0, 2 * pixels + 1)
    crop = lambda image, offset: jax.lax.dynamic_slice(
        image, (offset[0], offset[1], 0), (height, width, channels)
    )
    return jax.vmap(crop)(padded, offsets)


AUGMENTATIONS: Mapping[str, Augment | None] = {
    "none": None,
    "shift1": functools.partial(random_shift, pixels=1),
}
"""The augmentations that a config can name."""
