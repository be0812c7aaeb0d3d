"""The paper's tables, made again.

python -m har_jax.reproduce --table=cifar10_noisy_rare [--seeds=3] [--scale=small]
                            [--settings=ratio10] [--workdir=runs/reproduce] [--jobs=2]
                            [--data_dir=FOLDER]

Trains every row that is implemented, in every setting of the table and with every seed, prints
the table with the paper's numbers beside, and writes WORKDIR/TABLE-SCALE/table.md, table.json
and table.svg. The same command goes on where it was cut, and skips what is complete.
"""

import os
import pathlib
import platform
import shlex
import sys
from typing import Any, NoReturn

from absl import app, flags, logging

from har_jax import recipes
from har_jax.config import ConfigError
from har_jax.data.examples import DataError
from har_jax.files import write_json, write_text
from har_jax.reproduce import render
from har_jax.reproduce.grid import Grid, Scale
from har_jax.reproduce.tables import TABLES, paper
from har_jax.workdir import StageError

SCALES = {
    "full": Scale(shrink=lambda config: None, strengths=(0.01, 0.02, 0.05, 0.1)),
    "small": Scale(shrink=recipes.shrink, strengths=(0.03, 0.1, 0.3)),
}

_TABLE = flags.DEFINE_enum("table", None, list(TABLES), "The table.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "How many seeds.", lower_bound=1)
_FIRST_SEED = flags.DEFINE_integer("first_seed", 0, "The first of them.", lower_bound=0)
_SCALE = flags.DEFINE_enum(
    "scale", "full", list(SCALES), "small: the fixed reduction of har_jax.recipes.shrink."
)
_SETTINGS = flags.DEFINE_list("settings", [], "Some of the table's settings; all if not given.")
_WORKDIR = flags.DEFINE_string("workdir", "runs/reproduce", "Where the results go.")
_JOBS = flags.DEFINE_integer(
    "jobs", 1, "How many runs at once; they share the CPU cores out.", lower_bound=1
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Of TFDS; $TFDS_DATA_DIR or ~/tensorflow_datasets if not given."
)


def main(arguments: list[str]) -> None:
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # Orbax has much to tell below that
    if len(arguments) > 1:
        _exit(f"{arguments[1]!r} is not a flag: see --help")
    if _TABLE.value is None:
        _exit(f"--table is missing: take one of {', '.join(TABLES)}")
    try:
        results = _reproduce(_TABLE.value)
    except ConfigError as error:
        _exit(str(error))
    except (StageError, DataError, OSError) as error:
        _exit(str(error), status=1)
    except KeyboardInterrupt:
        _exit("interrupted: the same command goes on from the last checkpoints", status=130)
    print(render.terminal(results))


def _reproduce(name: str) -> dict[str, Any]:
    table, reported = TABLES[name], paper(name)
    settings = _SETTINGS.value or list(table.settings)
    if unknown := [setting for setting in settings if setting not in table.settings]:
        _exit(f"--settings={unknown[0]} is unknown: {name} has {', '.join(table.settings)}")
    folder = pathlib.Path(_WORKDIR.value).expanduser() / f"{name}-{_SCALE.value}"
    grid = Grid(
        table,
        SCALES[_SCALE.value],
        settings,
        range(_FIRST_SEED.value, _FIRST_SEED.value + _SEEDS.value),
        folder,
        _DATA_DIR.value,
    )
    grid.check()
    results = {
        "table": name,
        "title": reported.title,
        "metric": reported.metric,
        "is_error": table.is_error,
        "scale": _SCALE.value,
        "seeds": list(grid.seeds),
        **grid.make(reported, _JOBS.value),
        "command": f"python -m har_jax.reproduce {shlex.join(sys.argv[1:])}",
        "machine": _machine(),
    }
    write_json(folder / "table.json", results)
    write_text(folder / "table.md", render.markdown(results))
    write_text(folder / "table.svg", render.plot(results))
    print(f"table: {folder / 'table.md'}, table.json, table.svg")
    return results


def _machine() -> dict[str, str]:
    import flax
    import jax

    return {
        "Python": platform.python_version(),
        "jax": jax.__version__,
        "flax": flax.__version__,
        "devices": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "CPU cores": str(os.cpu_count()),
    }


def _exit(message: str, status: int = 2) -> NoReturn:
    print(f"har_jax: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    app.run(main)
