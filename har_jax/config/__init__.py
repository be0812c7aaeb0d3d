"""What a config can say: the defaults of every key, and the checks of its values.

Config files are ``ml_collections`` files: a function ``get_config()`` that takes :func:`base` and
overrides some of it. ``--config.KEY=VALUE`` overrides the file. :func:`validate` runs before any
data is loaded and any step compiled. All keys are listed in docs/config.md.
"""

from ml_collections import config_dict

from har_jax.config.defaults import base, flatten
from har_jax.config.errors import ConfigError

__all__ = ["ConfigError", "base", "flatten", "validate"]


def validate(config: config_dict.ConfigDict) -> None:
    """Checks every key and value of a config.

    Raises:
      ConfigError: for the first key that is unknown, missing or not read, and the first value
        that has the wrong type or is impossible.
    """
    from har_jax.config import validation  # with Pydantic, which takes a while

    validation.validate(config)
