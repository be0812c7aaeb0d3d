"""What a config can say: the defaults of every key, and the checks of its values.

Config files are ``ml_collections`` files: a function ``get_config()`` that takes :func:`base` and
overrides some of it. ``--config.KEY=VALUE`` overrides the file. :func:`validate` runs before any
data is loaded and any step compiled. All keys are listed in docs/config.md.
"""

from har_jax.config.defaults import base, flatten
from har_jax.config.errors import ConfigError
from har_jax.config.validation import validate

__all__ = ["ConfigError", "base", "flatten", "validate"]
