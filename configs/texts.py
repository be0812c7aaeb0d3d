"""A bidirectional LSTM on a person's own texts: --config.data.table=FILE.csv.

With columns text and label, and perhaps split and group.
"""

from har_jax.config import recipes


def get_config():
    return recipes.own_texts()
