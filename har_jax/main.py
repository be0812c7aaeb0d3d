"""Heteroskedastic adaptive regularization, from a config file to a report.

python -m har_jax.main --config=configs/digits.py [--workdir=runs/digits] [--stage=train]
                       [--config.KEY=VALUE ...]

So do python -m har_jax and har-jax; --config=digits is the config of that name that comes with the
package. Runs the stages pretrain, estimate, train and report in WORKDIR. What is complete there is
skipped, what was cut goes on, and what was made from another config is refused. The report
is WORKDIR/report/index.html. A config's keys and their defaults are in har_jax/config.py;
for example --config.seed=1 --config.regularizer.strength=0.3.
"""

import os
import pathlib
import re
import sys
import warnings
from typing import NoReturn

import jax
from absl import app, flags, logging
from ml_collections import config_flags

from har_jax import config as har_config
from har_jax import config_files
from har_jax.data.examples import DataError
from har_jax.system import process_flags
from har_jax.system.interruption import (
    SECONDS_TO_SAVE,
    Interrupted,
    check,
    end_at_once,
    end_in_time,
    received,
)
from har_jax.system.terminal import guard_output, stop
from har_jax.workdir import STAGES, StageError

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "The config file; --config.KEY=VALUE overrides what it says."
)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Where the results go; runs/ and the config file's name if not given."
)
_STAGE = flags.DEFINE_enum(
    "stage", None, STAGES, "The one stage to run; all, one after the other, if not given."
)
_DETERMINISTIC = flags.DEFINE_bool(
    "deterministic", False, "Gives the same bits every time on a GPU too, if more slowly."
)


def main(_: list[str]) -> None:
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.FATAL)  # Orbax logs, at length, what it raises as well
    # What these import takes seconds; flags come first.
    from har_jax.experiment import Experiment
    from har_jax.train.compilation import make_deterministic, use_compilation_cache
    from har_jax.train.memory import shortage

    if _DETERMINISTIC.value:
        make_deterministic()
    use_compilation_cache()
    one_line = lambda message: " ".join(str(message).split())
    warnings.formatwarning = lambda message, *_, **__: f"har_jax: warning: {one_line(message)}\n"
    name = pathlib.Path(config_flags.get_config_filename(flags.FLAGS["config"])).stem
    workdir = pathlib.Path(os.path.expanduser(_WORKDIR.value or f"runs/{name}"))
    if "://" in str(_WORKDIR.value):
        stop(f"--workdir={_WORKDIR.value} is an address: take a folder of this machine")
    try:
        process_flags.join()
        end_in_time(SECONDS_TO_SAVE)  # while it waits for others there is nothing to save
        Experiment(_CONFIG.value, workdir).run(_STAGE.value)
        end_at_once()
        check()
    except (StageError, DataError, FloatingPointError, OSError) as error:
        _end(str(error), 1)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        if told := shortage(error):
            _end(told, 1)
        if jax.process_count() == 1:
            raise
        if interrupted := received():  # and so have the others
            _end_interrupted(interrupted)
        _end(
            f"another process of this run has ended, or cannot be reached ({error}): the same "
            "command on all hosts goes on from the last checkpoint",
            1,
        )
    except Interrupted as error:
        _end_interrupted(error)


def _end_interrupted(error: Interrupted) -> NoReturn:
    _end(f"{error}: the same command goes on from there", 128 + error.signal)


def _end(message: str, status: int) -> NoReturn:
    several = jax.distributed.is_initialized()
    stop(message, status, at_once=several)


def _parse(argv: list[str]) -> list[str]:
    """Reads the flags and checks the config; ends with one line if something is wrong."""
    if len(argv) == 1:
        stop("nothing to run: try --config=configs/digits.py, or --help")
    try:
        argv = _find_file(argv)
        _check_overrides(argv)
        argv, unset = _take_unset(argv)
        rest = flags.FLAGS(argv)
        if len(rest) > 1:
            stop(f"{rest[1]!r} is not a flag: write --config=FILE and --config.KEY=VALUE")
        if flags.FLAGS["config"].present == 0:
            stop("--config is missing: try --config=configs/digits.py")
        hasattr(_CONFIG.value, "seed")  # raises if there is no such file
        for key in unset:
            _CONFIG.value.update_from_flattened_dict({key: None})
        har_config.validate(_CONFIG.value)
        _check_promotion()
        process_flags.check()
    except har_config.ConfigError as error:
        stop(str(error))
    except flags.IllegalFlagValueError as error:
        stop(_wrong_value(str(error)))
    except OSError as error:
        stop(f"the config file cannot be read: {error}")
    except flags.Error as error:
        stop(str(error))
    except Exception as error:  # a config file is a program, and can fail in any way
        stop(config_files.failure(error))
    return rest


def _check_promotion() -> None:
    strict = jax.config.jax_numpy_dtype_promotion == "strict"  # type: ignore[attr-defined]
    dtype = _CONFIG.value.model.dtype
    if strict and dtype != "float32":
        raise har_config.ConfigError(
            f"config.model.dtype={dtype!r} and JAX_NUMPY_DTYPE_PROMOTION=strict "
            "exclude each other, since Flax's norms compute in both widths: unset one of the two"
        )


def _find_file(argv: list[str]) -> list[str]:
    """The arguments with the path of the config file, which may be given by the name of ours.

    Ends with one line if there is none, before anybody else says it at length.
    """
    argv = list(argv)
    for place, argument in enumerate(argv):
        name, equals, value = argument.partition("=")
        if name not in ("--config", "-config"):
            continue
        given = value if equals else (argv[place + 1 : place + 2] or [""])[0]
        found = config_files.find(given)
        if found is None:
            stop(
                f"there is no config file {given}: give its path from {pathlib.Path.cwd()}, or the "
                f"name of one that comes with this package: {', '.join(config_files.packaged())}"
            )
        argv[place if equals else place + 1] = f"{name}={found}" if equals else str(found)
    return argv


def _check_overrides(argv: list[str]) -> None:
    keys = har_config.flatten(har_config.base())
    for argument in argv:
        if match := re.match(r"--?config\.([\w.]+)", argument):
            key = match[1]
            if key not in keys and not any(known.startswith(f"{key}.") for known in keys):
                raise har_config.unknown_key(key)


def _take_unset(argv: list[str]) -> tuple[list[str], list[str]]:
    """Takes ``--config.KEY=None`` out, for keys that can be unset, which no flag can say."""
    defaults = har_config.flatten(har_config.base())
    unset = {
        argument: match[1]
        for argument in argv
        if (match := re.fullmatch(r"--?config\.([\w.]+)=None", argument))
        and defaults.get(match[1], "") is None
    }
    return [argument for argument in argv if argument not in unset], list(unset.values())


def _wrong_value(message: str) -> str:
    if match := re.search(r"flag --config\.([\w.]+)=(.*?):", message):
        key, value = match.groups()
        return f"config.{key}={value!r} has the wrong type: {har_config.type_name(key)} needed"
    if "Traceback" in message:  # of the config file: its last words are the error
        lines = [line.strip() for line in message.splitlines() if re.match(r"\s*\w+Error", line)]
        return f"the config file fails: {lines[-1] if lines else message}"
    return message


def _help() -> str:
    """What there is to say, and the flags that are this command's own."""
    of_flag = flags.FLAGS.find_module_defining_flag
    modules = dict.fromkeys(of_flag(name) for name in ("workdir", "find_processes"))
    return "\n".join([str(__doc__), *(flags.FLAGS.module_help(module) for module in modules)])


def run() -> None:
    """The command."""
    end_at_once()
    guard_output()
    if {"-h", "-help", "--help"} & set(sys.argv[1:]):  # which absl ends with 1
        print(_help())
        sys.exit(0)
    app.run(main, flags_parser=_parse)


if __name__ == "__main__":
    run()
