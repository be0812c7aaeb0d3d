"""The whole WebVision 1.0: --config.data.root=FOLDER, and perhaps --config.data.imagenet."""

from har_jax.config import recipes


def get_config():
    return recipes.webvision("full")
