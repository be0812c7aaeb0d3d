"""WebVision 1.0, whole: --config.data.root=FOLDER, and perhaps --config.data.imagenet_root=FOLDER."""

from har_jax import recipes


def get_config():
    return recipes.webvision("full")
