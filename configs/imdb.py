"""A bidirectional LSTM on IMDB's reviews, whose positive ones are often called negative."""

from har_jax.config import recipes


def get_config():
    return recipes.imdb()
