"""The paper's IMDB at small scale."""

from har_jax.config import recipes


def get_config():
    config = recipes.imdb()
    recipes.shrink(config)
    return config
