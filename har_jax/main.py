"""Heteroskedastic adaptive regularization, from a config file to a report.

python -m har_jax.main --config=configs/digits.py [--workdir=runs/digits] [--stage=train]
                       [--seeds=0,1,2] [--config.KEY=VALUE ...]

So do python -m har_jax and har-jax. Runs the stages pretrain, estimate, start, select, train and
report, those that are needed, in WORKDIR. What is complete there is skipped, what was cut goes on,
and what was made from another config is refused. The report is WORKDIR/report/index.html. With
--seeds all that is done at each of several seeds, in WORKDIR/seed-N, and the report is of all.
har-jax compare RUN RUN ... has several runs on one page; its own --help says more.

A config file is a path, or the name of one that comes with the package. --config.KEY=VALUE
overrides what it says, for example --config.seed=1 --config.regularizer.strength=0.3.

har-jax tune chooses strengths on held-out training data, as python -m har_jax.tune does; see its
--help.
"""

import pathlib
import sys
from typing import NoReturn

import jax
from absl import app, flags, logging
from ml_collections.config_dict import ConfigDict

from har_jax import compare
from har_jax import config as har_config
from har_jax.config import command_line, document, overrides
from har_jax.data.examples import DataError
from har_jax.experiment.workdir import STAGES, StageError
from har_jax.system import process_flags, starting
from har_jax.system.arguments import folder_of
from har_jax.system.interruption import (
    SECONDS_TO_SAVE,
    Interrupted,
    check,
    end_at_once,
    end_in_time,
    received,
)
from har_jax.system.terminal import guard_output, stop
from har_jax.tune import command

_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Where the results go; runs/ and the config file's name if not given."
)
_STAGE = flags.DEFINE_enum(
    "stage", None, STAGES, "The one stage to run; all, one after the other, if not given."
)
_SEEDS = flags.DEFINE_string(
    "seeds", None, "Runs the config at each of these, such as 0,1,2, and compares over them."
)
_DETERMINISTIC = flags.DEFINE_bool(
    "deterministic", False, "Gives the same bits every time on a GPU too, if more slowly."
)
_HELP = {"-h", "-help", "--help", "--helpshort", "--helpfull"}


def main(arguments: list[str]) -> None:
    _, file = arguments
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.FATAL)  # Orbax logs, at length, what it raises as well
    starting.begin()
    # What these import takes seconds; flags come first.
    from har_jax.experiment.algorithm import Experiment
    from har_jax.experiment.seeds import refuse_several_seeds, run_seeds
    from har_jax.train.compilation import make_deterministic, use_compilation_cache
    from har_jax.train.memory import shortage

    if _DETERMINISTIC.value:
        make_deterministic()
    use_compilation_cache()
    seeds = overrides.seeds(_SEEDS.value)
    default = f"runs/{pathlib.Path(file).stem}{'-seeds' if seeds else ''}"
    workdir = folder_of("--workdir", _WORKDIR.value or default)
    try:
        process_flags.join()
        end_in_time(SECONDS_TO_SAVE)  # while it waits for others there is nothing to save
        missing = []
        if seeds:
            missing = run_seeds(flags.FLAGS.config, workdir, seeds, _STAGE.value)
        else:
            refuse_several_seeds(workdir)
            Experiment(flags.FLAGS.config, workdir).run(_STAGE.value)
        end_at_once()
        check()
        if missing:
            _end(f"seeds that diverged, and are left out: {', '.join(map(str, missing))}", 1)
    except (StageError, DataError, FloatingPointError, OSError) as error:
        _end(str(error), 1)
    except har_config.ConfigError as error:  # that data were needed to find
        _end(str(error), 2)
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
    """Reads the flags and checks the config; ends with one line if something is wrong.

    Returns:
      The program's name and the config file.
    """
    if len(argv) == 1:
        stop("nothing to run: try --config=configs/digits.py, or --help")

    def check_all(config: ConfigDict) -> None:
        if overrides.seeds(_SEEDS.value) and overrides.is_given("seed", argv):
            raise har_config.ConfigError(
                "--seeds and --config.seed exclude each other: leave one of them out"
            )
        _check(config)

    given = command_line.read(argv, flags.FLAGS, check_all)
    return [argv[0], str(given.file)]


def _check(config: ConfigDict) -> None:
    strict = jax.config.jax_numpy_dtype_promotion == "strict"  # type: ignore[attr-defined]
    if strict and config.model.dtype != "float32":
        raise har_config.ConfigError(
            f"config.model.dtype={config.model.dtype!r} and JAX_NUMPY_DTYPE_PROMOTION=strict "
            "exclude each other, since Flax's norms compute in both widths: unset one of the two"
        )
    process_flags.check()


def _help() -> str:
    """What there is to say, and the flags that are this command's own."""
    of_flag = flags.FLAGS.find_module_defining_flag
    modules = dict.fromkeys(of_flag(name) for name in ("workdir", "find_processes"))
    of_flags = [flags.FLAGS.module_help(module) for module in modules]
    return "\n".join([str(__doc__), *of_flags, document.as_text()])


def run() -> None:
    """The command."""
    if sys.argv[1:2] == ["compare"]:
        compare.run(sys.argv[2:])
        return
    end_at_once()
    guard_output()
    if sys.argv[1:2] == ["tune"]:
        command.main(sys.argv[2:])
        return
    if _HELP & set(sys.argv[1:]):  # which absl ends with 1
        print(_help())
        sys.exit(0)
    app.run(main, flags_parser=_parse)


if __name__ == "__main__":
    run()
