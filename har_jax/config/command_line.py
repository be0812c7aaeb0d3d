"""A command's config: its file, with what the command line overrides."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from absl import flags
from ml_collections import config_flags
from ml_collections.config_dict import ConfigDict

from har_jax.config import files, overrides, validate
from har_jax.config.defaults import flatten
from har_jax.config.errors import ConfigError
from har_jax.system.terminal import stop


class Given(NamedTuple):
    """What a command line says.

    Attributes:
      config: Validated.
      file: In which it begins.
      changes: What the command line changes in it, by dotted key.
    """

    config: ConfigDict
    file: pathlib.Path
    changes: dict[str, Any]


def read(
    argv: Sequence[str],
    flag_values: flags.FlagValues,
    check: Callable[[ConfigDict], None] = lambda config: None,
) -> Given:
    """Reads the flags and checks the config; ends with one line if something is wrong.

    Args:
      argv: The program's name, ``--config=FILE``, ``--config.KEY=VALUE`` and other flags.
      flag_values: Where these others are defined, and ``config`` will be.
      check: What else has to be true of the config; may raise :class:`har_jax.config.ConfigError`.
    """
    try:
        rest, file = overrides.take_file(list(argv))
        config = files.load(file)
        before: dict[str, Any] = {}
        if isinstance(config, ConfigDict):
            before = flatten(config)
            rest = overrides.prepare(config, rest)
            config_flags.DEFINE_config_dict(
                "config", config, sys_argv=rest, flag_values=flag_values
            )
            unread = flag_values(rest)
            if len(unread) > 1:
                stop(f"{unread[1]!r} is not a flag: write --config=FILE and --config.KEY=VALUE")
        validate(config)
        check(config)
    except ConfigError as error:
        stop(str(error))
    except flags.IllegalFlagValueError as error:
        stop(overrides.wrong_value(config, rest, str(error)))
    except OSError as error:
        stop(f"the config file cannot be read: {error}")
    except flags.Error as error:
        stop(str(error))
    except Exception as error:  # a config file is a program, and can fail in any way
        stop(files.failure(error))
    changes = {
        key: value
        for key, value in flatten(config).items()
        if before.get(key) != value  # a person's own options are declared meanwhile
    }
    return Given(config, file, changes)
