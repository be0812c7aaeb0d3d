"""Mini WebVision: --config.data.root=FOLDER, and perhaps --config.data.imagenet=FOLDER."""

from har_jax.config import recipes


def get_config():
    return recipes.webvision("mini")
