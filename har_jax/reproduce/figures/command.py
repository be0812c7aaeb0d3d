"""What ``python -m har_jax.reproduce --figure=NAME`` does."""

import argparse
import pathlib
from collections.abc import Callable, Mapping

from har_jax.reproduce.figures import losses, per_class, runs, strengths, theory
from har_jax.reproduce.figures.written import Drawn, write
from har_jax.system.arguments import folder_of

_STRENGTHS = (0.1, 0.3, 1.0, 3.0)


def _theory(options: argparse.Namespace) -> Mapping[str, Drawn]:
    return {"theory_toy": theory.toy(), "theory_ratio": theory.ratios()}


def _losses(options: argparse.Namespace) -> Mapping[str, Drawn]:
    of_seed = _runs(options, (), [options.first_seed])
    return {"losses": losses.draw(of_seed[0])}


def _per_class(options: argparse.Namespace) -> Mapping[str, Drawn]:
    return {"per_class": per_class.draw(_runs(options, (), _seeds(options)))}


def _strengths(options: argparse.Namespace) -> Mapping[str, Drawn]:
    given = options.strengths or _STRENGTHS
    return {"strengths": strengths.draw(_runs(options, given, _seeds(options)))}


FIGURES: Mapping[str, Callable[[argparse.Namespace], Mapping[str, Drawn]]] = {
    "theory": _theory,
    "losses": _losses,
    "per_class": _per_class,
    "strengths": _strengths,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what figures have beside the options of tables."""
    add = parser.add_argument_group("figures").add_argument
    add("--runs", nargs="+", help="folders with runs to draw; they are made if not given")
    add("--config", default="digits", help="of the runs that are made (digits)")
    add("--strengths", nargs="+", type=float, help="of --figure=strengths (0.1 0.3 1 3)")


def draw(options: argparse.Namespace) -> None:
    """Makes what a figure is of, where that is not given, and writes it.

    Raises:
      ConfigError: if a config is impossible.
      StageError: if runs are not what the figure is of.
    """
    folder = folder_of("--workdir", options.workdir) / options.figure
    for name, drawn in FIGURES[options.figure](options).items():
        write(folder, name, drawn)


def _seeds(options: argparse.Namespace) -> range:
    return range(options.first_seed, options.first_seed + options.seeds)


def _runs(options: argparse.Namespace, of: tuple[float, ...], seeds) -> list[runs.Made]:
    if options.runs:
        return runs.existing([folder_of("--runs", each) for each in options.runs])
    config = pathlib.Path(options.config).stem
    folder = folder_of("--workdir", options.workdir) / "figures" / config
    return runs.make(options.config, folder, seeds, of, options.jobs)
