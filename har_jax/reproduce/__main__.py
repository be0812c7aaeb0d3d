"""The paper's tables and figures, made again.

--table trains every row that is implemented, in every setting of the table and with every seed,
prints the table with the paper's numbers beside, and writes WORKDIR/TABLE-SCALE/table.md,
table.json and table.svg. --figure draws theory, losses, per_class or strengths, the latter of runs
that exist (--runs) or are made, and writes WORKDIR/FIGURE/*.svg, .png and .json, the numbers. The
same command goes on where it was cut, and skips what is complete.
"""

import argparse
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import jax
from absl import logging

from har_jax.config import recipes
from har_jax.experiment.ending import in_one_line
from har_jax.reproduce import render
from har_jax.reproduce.figures import command
from har_jax.reproduce.grid import Grid, Scale
from har_jax.reproduce.tables import TABLES, UNIFORM, paper
from har_jax.system import starting
from har_jax.system.arguments import Parser, folder_of, positive_integer
from har_jax.system.files import write_json, write_text
from har_jax.system.terminal import guard_output, stop

SCALES = {
    "full": Scale(shrink=lambda config: None, strengths={UNIFORM: (0.01, 0.02, 0.05, 0.1)}),
    "small": Scale(shrink=recipes.shrink, strengths={UNIFORM: (0.1, 0.3, 1.0)}),
}


def main(arguments: Sequence[str]) -> None:
    logging.set_verbosity(logging.FATAL)  # Orbax logs, at length, what it raises as well
    options = _parser().parse_args(arguments)
    starting.begin()
    grid = None if options.figure else _grid(options)
    with in_one_line():
        if grid is None:
            command.draw(options)
            return
        grid.check()
        grid.find_data()
        results = _reproduce(grid, options, shlex.join(arguments))
    print(render.terminal(results))


def _grid(options: argparse.Namespace) -> Grid:
    table = TABLES[options.table]
    settings = options.settings.split(",") if options.settings else list(table.settings)
    if unknown := [setting for setting in settings if setting not in table.settings]:
        stop(f"--settings={unknown[0]} is unknown: {options.table} has {', '.join(table.settings)}")
    folder = folder_of("--workdir", options.workdir) / f"{options.table}-{options.scale}"
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    return Grid(table, SCALES[options.scale], settings, seeds, folder, options.data_dir)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("python -m har_jax.reproduce", __doc__)
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group(required=True).add_argument
    which("--table", choices=TABLES, help="the table")
    which("--figure", choices=command.FIGURES, help="the figure")
    add("--settings", help="some of its settings, such as ratio10,ratio100; all if not given")
    add("--seeds", type=positive_integer, default=3, help="how many seeds (3)")
    add("--first_seed", type=int, default=0, help="the first of them (0)")
    add(
        "--scale",
        choices=SCALES,
        default="full",
        help="small: the reduction of har_jax.config.recipes",
    )
    add(
        "--jobs",
        type=positive_integer,
        default=1,
        help="how many runs at once, sharing CPU cores out (1)",
    )
    add("--workdir", default="runs/reproduce", help="where results go (runs/reproduce)")
    add("--data_dir", help="of TFDS; $TFDS_DATA_DIR or ~/tensorflow_datasets if not given")
    command.add_options(parser)
    return parser


def _reproduce(grid: Grid, options: argparse.Namespace, arguments: str) -> dict[str, Any]:
    reported = paper(options.table)
    results = {
        "table": options.table,
        "title": reported.title,
        "metric": reported.metric,
        "is_error": grid.table.is_error,
        "scale": options.scale,
        "seeds": list(grid.seeds),
        **grid.make(reported, options.jobs),
        "command": f"python -m har_jax.reproduce {arguments}",
        "machine": _machine(),
    }
    write_json(grid.workdir / "table.json", results)
    write_text(grid.workdir / "table.md", render.markdown(results))
    write_text(grid.workdir / "table.svg", render.plot(results))
    print(f"table: {grid.workdir / 'table.md'}, table.json, table.svg")
    return results


def _machine() -> dict[str, str]:
    import flax

    return {
        "Python": platform.python_version(),
        "jax": jax.__version__,
        "flax": flax.__version__,
        "devices": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "CPU cores": str(os.cpu_count()),
    }


if __name__ == "__main__":
    guard_output()
    main(sys.argv[1:])
