"""Several runs side by side: one page, one table.

har-jax compare RUN RUN ... [--output=FOLDER]

A RUN is the workdir of a run, or of several seeds (--seeds), of any config, as long as the classes
are the same. Gains are over the first method of the first RUN, at the same seeds and on the same
test examples; where a run was tested on others, that is said, and no gain is taken. Runs that
differ in the seed only are one. Writes index.html, seeds.json and seeds.csv into the folder. So
does python -m har_jax.compare.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

from har_jax.system import starting
from har_jax.system.arguments import Parser, folder_of
from har_jax.system.interruption import end_at_once
from har_jax.system.terminal import guard_output, stop


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        super().error(f"compare: {message}")


def _parser() -> Parser:
    parser = _Parser("har-jax compare", __doc__)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a workdir")
    parser.add_argument(
        "--output", default="runs/compare", help="the folder of the page (runs/compare)"
    )
    return parser


def main(arguments: Sequence[str]) -> None:
    """Compares the runs that the arguments name; ends with one line if something is wrong."""
    options = _parser().parse_args(arguments)
    starting.begin()
    from har_jax.report.runs import read_runs  # after the flags: it takes a while
    from har_jax.report.seeds_page import report

    output = folder_of("--output", options.output)
    if (output / "stage.json").exists():
        stop(f"--output={output} is a folder of a run: take another")
    try:
        folders = [folder_of("RUN", each) for each in options.runs]
        runs = [run for folder in folders for run in read_runs(folder)]
        title = f"{' and '.join(options.runs)}" if len(folders) < 4 else f"{len(folders)} runs"
        lines = report(runs, output / "index.html", title=title, missing={})
    except OSError as error:
        stop(str(error), 1)
    print("\n".join(lines))


def run(arguments: Sequence[str] | None = None) -> None:
    """The command; ``har-jax compare`` gives it what is behind that word."""
    end_at_once()
    guard_output()
    main(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    run()
