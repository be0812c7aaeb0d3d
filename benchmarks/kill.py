"""Kills the main job again and again, and looks whether what it leaves is what it would have been.

python -m benchmarks.kill [--kills=24] [--interrupts=10] [--seed=0]

Runs a small job once without interruption. Then again and again, each time in another workdir,
killed (SIGKILL) while it trains, estimates, evaluates, reports or writes a checkpoint, and begun
again until it is complete; likewise with SIGTERM and Ctrl-C at random moments, which have to end
it within 10 seconds, and never with status 0. Parameters, optimizer states, metrics, predictions
and the report have to be those of the first run, bit for bit.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from har_jax.system.files import read_arrays
from har_jax.train.checkpoints import Checkpoints

ROOT = pathlib.Path(__file__).parent.parent
STAGES = ("pretrain", "estimate", "train/erm", "train/har", "report")
JOB = (
    "--config=configs/digits.py",
    "--config.pretrain.folds=None",
    "--config.model.widths=8,",
    "--config.pretrain.epochs=30",
    "--config.train.epochs=30",
    "--config.log_every=7",
    "--config.checkpoint_every=5",
)
TRAINED = ("pretrain", "train/erm", "train/har")
# What is waited for before a kill: a stage, whether it is saving, and seconds more at most.
MOMENTS = (
    ("pretrain", False, 2.0),
    ("pretrain", True, 0.02),
    ("estimate", False, 0.0),
    ("train/erm", False, 2.0),
    ("train/erm", True, 0.02),
    ("train/har", True, 0.02),
    ("train/har", False, 2.0),
    ("report", False, 1.0),
)


@dataclasses.dataclass(frozen=True)
class Killed:
    """When a job was killed.

    Attributes:
      stage: What was under way.
      saving: Whether a checkpoint was half written.
      code: The exit status.
    """

    stage: str
    saving: bool
    code: int


def start(job: tuple[str, ...], workdir: pathlib.Path) -> subprocess.Popen:
    """Starts the main job."""
    command = [sys.executable, "-m", "har_jax.main", *job, f"--workdir={workdir}"]
    streams = dict(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen(command, cwd=ROOT, **streams)


def kill(
    job: tuple[str, ...],
    workdir: pathlib.Path,
    moment: tuple[str, bool, float],
    rng: random.Random,
) -> Killed | None:
    """Starts a job and kills it at some moment; None if it was complete before."""
    stage, saving, more = moment
    folder = workdir / stage
    due: Callable[[], bool] = folder.exists
    if saving:
        # A folder that earlier kills left is not a save.
        left = set(folder.glob("checkpoints/*tmp*"))
        due = lambda: bool(set(folder.glob("checkpoints/*tmp*")) - left)
    elif folder.exists():  # the job is starting: wait for it to go on
        record = (folder / "stage.json").stat().st_mtime
        due = lambda: (folder / "stage.json").stat().st_mtime != record
    process = start(job, workdir)
    while not due() and process.poll() is None:
        time.sleep(0.0005)
    time.sleep(rng.uniform(0, more))
    process.kill()
    process.communicate()
    if process.returncode == 0:
        return None
    under_way = next((each for each in STAGES if not is_complete(workdir / each)), "report")
    half_written = any(workdir.glob(f"{under_way}/checkpoints/*tmp*"))
    return Killed(under_way, half_written, process.returncode)


def finish(job: tuple[str, ...], workdir: pathlib.Path) -> None:
    """Runs a job to its end."""
    process = start(job, workdir)
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{workdir}: {said}")


def contents(workdir: pathlib.Path) -> dict[str, object]:
    """All that a complete job says, by file: text, and arrays with their types."""
    found: dict[str, object] = {}
    for path in workdir.rglob("*"):
        name = str(path.relative_to(workdir))
        if path.name in ("metrics.jsonl", "results.json", "index.html") or path.suffix == ".csv":
            found[name] = path.read_bytes()
        elif path.suffix == ".npz":
            found[name] = {key: _bits(array) for key, array in read_arrays(path).items()}
    for stage in TRAINED:
        latest = Checkpoints(workdir / stage / "checkpoints").latest()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sharding info not provided")
            leaves = jax.tree.leaves_with_path(ocp.load(latest))
        found[f"{stage} at step {latest.name}"] = {
            jax.tree_util.keystr(key): _bits(np.asarray(leaf)) for key, leaf in leaves
        }
    return found


def _bits(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.str, array.shape, array.tobytes()


def is_complete(folder: pathlib.Path) -> bool:
    try:
        return json.loads((folder / "stage.json").read_text())["complete"]
    except FileNotFoundError:
        return False


def trials(
    folder: pathlib.Path, kills: int, seed: int
) -> Iterator[tuple[pathlib.Path, list[Killed]]]:
    """Jobs that were killed so many times in all, and then finished."""
    rng, job = random.Random(seed), 0
    while kills:
        workdir, killed, job = folder / str(job), [], job + 1
        for moment in MOMENTS:
            if kills and (result := kill(JOB, workdir, moment, rng)):
                killed.append(result)
                kills -= 1
        finish(JOB, workdir)
        yield workdir, killed


def main() -> None:
    # Here, since that module imports this one.
    from benchmarks import interrupt

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=24, help="how many SIGKILLs (24)")
    parser.add_argument("--interrupts", type=int, default=10, help="SIGTERMs and SIGINTs (10)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    options = parser.parse_args()
    # What a shell starts in the background ignores Ctrl-C, and so would the jobs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    killed: list[Killed] = []
    asked: list[interrupt.Asked] = []
    jobs = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.kills:
            finish(JOB, folder / "whole")
            expected = contents(folder / "whole")
            for workdir, ended in trials(folder / "killed", options.kills, options.seed):
                compare(workdir, expected)
                killed, jobs = [*killed, *ended], jobs + 1
        if options.interrupts:
            steps, seconds = interrupt.measure(folder / "timed")
            expected = contents(folder / "timed")
            polite = [(signal.SIGTERM, signal.SIGINT)[i % 2] for i in range(options.interrupts)]
            for workdir, those in interrupt.trials(
                folder / "asked", polite, steps, seconds, options.seed
            ):
                compare(workdir, expected)
                asked, jobs = [*asked, *those], jobs + 1
                print(f"{len(asked)} of {options.interrupts}", file=sys.stderr, flush=True)
    if killed:
        print(table(killed), end="\n\n")
    if asked:
        print(interrupt.table(asked), end="\n\n")
    print(
        f"{jobs} jobs, ended {len(killed) + len(asked)} times: all like the one that was not, bit "
        "for bit"
    )
    if wrong := [each for each in asked if each.wrong]:
        sys.exit("this is not how a job is to end:\n" + "\n".join(map(str, wrong)))


def compare(workdir: pathlib.Path, expected: dict[str, object]) -> None:
    """Ends the program if a job has left anything else than another."""
    found = contents(workdir)
    differing = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
    if differing:
        sys.exit(f"{workdir} differs in {', '.join(differing)}")


def table(killed: list[Killed]) -> str:
    """What was killed when, in Markdown."""
    groups = collections.defaultdict(list)
    for result in killed:
        groups[result.stage].append(result.saving)
    lines = ["| killed in | times | of these within a save |", "| --- | --- | --- |"]
    lines += [f"| {stage} | {len(those)} | {sum(those)} |" for stage, those in groups.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
