"""Chooses each method's strength on held-out noisy training data, with the same budget for all.

python -m har_jax.tune --config=configs/digits.py --strengths=0.1,0.3,1 --methods=har,uniform

Holds a part of the training set out, with the labels that are there, trains every method with every
strength at every seed on the rest, and takes the strength of the greatest mean score; of equal ones
the weaker. The test set is not looked at. Prints a table, and writes WORKDIR/tuned.json and
WORKDIR/tuned.py, a config for python -m har_jax.main --config=WORKDIR/tuned.py. --config.KEY=VALUE
overrides what the config file says, and is kept in it. The same command goes on where it was cut,
and skips what is complete.
"""

import argparse
from collections.abc import Sequence

from absl import flags, logging
from ml_collections.config_dict import ConfigDict

from har_jax.config import ConfigError, command_line, overrides
from har_jax.system import starting
from har_jax.system.arguments import Parser, folder_of, positive_integer
from har_jax.system.terminal import stop
from har_jax.tune.candidates import (
    Candidates,
    of_grid,
    of_strengths,
    refuse_clashes,
    with_strength,
)
from har_jax.tune.scores import FRACTION, SCORES, refuse_score


def main(arguments: Sequence[str]) -> None:
    logging.set_verbosity(logging.FATAL)  # Orbax logs, at length, what it raises as well
    options, rest = _parser().parse_known_args(arguments)
    given = command_line.read(["har_jax.tune", *rest], flags.FlagValues(), _refuse_validation)
    try:
        refuse_score(options.score, given.config)
        tuned = _candidates(options, given.config)
    except ConfigError as error:
        stop(str(error))
    starting.begin()
    # What this imports takes seconds; arguments come first.
    from har_jax.experiment.ending import in_one_line
    from har_jax.tune.tuning import tune

    default = f"runs/tune/{given.file.stem}"
    workdir = folder_of("--workdir", options.workdir or default)
    seeds = [given.config.seed] if options.seeds is None else options.seeds
    with in_one_line():
        tune(
            given,
            tuned,
            seeds,
            workdir,
            fraction=options.fraction,
            score=options.score,
            jobs=options.jobs,
        )


def _parser() -> argparse.ArgumentParser:
    parser = Parser("python -m har_jax.tune", __doc__)
    add = parser.add_argument
    add("--methods", help="with commas; those of config.methods that have a strength if not given")
    add("--strengths", help="with commas: those among which each of the methods has its own chosen")
    add(
        "--grid",
        action="append",
        default=[],
        metavar="METHOD.OPTION=VALUES",
        help="another number of a method, such as gce.q=0.1,0.3,0.5; may be given again",
    )
    add("--seeds", type=_seeds, help="with commas; config.seed if not given")
    add("--fraction", type=_share, default=FRACTION, help=f"of the training set ({FRACTION})")
    add(
        "--score",
        choices=tuple(SCORES),
        default=next(iter(SCORES)),
        help="the accuracy on what is held out: the mean over classes, as if not given, or over "
        "groups; that of all examples; the mean over the classes that config.data.noise or "
        "config.data.imbalance is of",
    )
    add("--jobs", type=positive_integer, default=1, help="runs at once, sharing CPU cores out (1)")
    add("--workdir", help="where results go; runs/tune/ and the config file's name if not given")
    return parser


def _candidates(options: argparse.Namespace, config: ConfigDict) -> list[Candidates]:
    """What is to be tuned.

    Raises:
      ConfigError: if it is nothing, or something that a method has not.
    """
    tuned = [of_grid(text) for text in options.grid]
    if options.strengths is not None:
        methods = with_strength(config.methods)
        if options.methods is not None:
            methods = [name.strip() for name in options.methods.split(",") if name.strip()]
        if not methods:
            raise ConfigError(
                f"--methods is empty, or none of config.methods={config.methods} has a strength: "
                "name some, such as --methods=har,uniform"
            )
        tuned = [*of_strengths(methods, options.strengths), *tuned]
    elif options.methods is not None:
        raise ConfigError("--strengths is missing, such as --strengths=0.1,0.3,1")
    if not tuned:
        raise ConfigError(
            "nothing to choose from: give --strengths=0.1,0.3,1, or --grid=gce.q=0.1,0.3,0.5"
        )
    refuse_clashes(tuned)
    return tuned


def _refuse_validation(config: ConfigDict) -> None:
    if config.data.evaluate_on != "test":
        raise ConfigError(
            f"config.data.evaluate_on={config.data.evaluate_on!r} would compare on what strengths "
            "are chosen by, which is held out here anyhow: leave it out, with "
            "config.data.validation_fraction"
        )


def _seeds(text: str) -> list[int]:
    try:
        return list(overrides.seeds(text))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{text} must be numbers from 0 on, each once") from error


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text} must be a number above 0 and below 1")
    return share
