"""Kills the main job again and again, and looks whether what it leaves is what it would have been.

python -m benchmarks.kill [--kills=24] [--interrupts=6] [--seed=0]

Runs a small job once without interruption. Then again and again, each time in another workdir,
killed (SIGKILL) while it trains, estimates, evaluates, reports or writes a checkpoint, and begun
again until it is complete; likewise with SIGTERM and Ctrl-C, which have to end it within 10
seconds. Parameters, optimizer states, metrics, predictions and the report have to be those of the
first run, bit for bit.
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

from har_jax.files import read_arrays
from har_jax.train.checkpoints import Checkpoints

ROOT = pathlib.Path(__file__).parent.parent
STAGES = ("pretrain", "estimate", "train/erm", "train/har", "report")
JOB = (
    "--config=configs/digits.py",
    "--config.model.widths=8,",
    "--config.pretrain.epochs=30",
    "--config.train.epochs=30",
    "--config.log_every=7",
    "--config.checkpoint_every=5",
)
TRAINED = ("pretrain", "train/erm", "train/har")
# What is waited for before the signal: a stage, whether it is saving, and seconds more at most.
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
class Ended:
    """How a signal ended a job.

    Attributes:
      number: The signal.
      stage: What was under way.
      saving: Whether a checkpoint was half written.
      code: The exit status.
      seconds: From the signal to the end.
      said: The last line of the standard error.
    """

    number: signal.Signals
    stage: str
    saving: bool
    code: int
    seconds: float
    said: str


def start(job: tuple[str, ...], workdir: pathlib.Path) -> subprocess.Popen:
    """Starts the main job."""
    command = [sys.executable, "-m", "har_jax.main", *job, f"--workdir={workdir}"]
    streams = dict(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen(command, cwd=ROOT, **streams)


def interrupt(
    job: tuple[str, ...],
    workdir: pathlib.Path,
    moment: tuple[str, bool, float],
    number: signal.Signals,
    rng: random.Random,
) -> Ended | None:
    """Starts a job and ends it at some moment; None if it was complete before."""
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
    process.send_signal(number)
    begun = time.perf_counter()
    said = process.communicate()[1].splitlines()
    seconds = time.perf_counter() - begun
    if process.returncode == 0:
        return None
    under_way = next((each for each in STAGES if not _is_complete(workdir / each)), "report")
    half_written = any(workdir.glob(f"{under_way}/checkpoints/*tmp*"))
    return Ended(
        number, under_way, half_written, process.returncode, seconds, said[-1] if said else ""
    )


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
        if path.name in ("metrics.jsonl", "results.json", "index.html"):
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


def _is_complete(folder: pathlib.Path) -> bool:
    try:
        return json.loads((folder / "stage.json").read_text())["complete"]
    except FileNotFoundError:
        return False


def trials(
    folder: pathlib.Path, signals: list[signal.Signals], seed: int
) -> Iterator[tuple[pathlib.Path, list[Ended]]]:
    """Jobs that were ended by the signals, one after the other, and then finished."""
    rng, job = random.Random(seed), 0
    while signals:
        workdir, ended, job = folder / str(job), [], job + 1
        for moment in MOMENTS:
            if signals and (result := interrupt(JOB, workdir, moment, signals[0], rng)):
                ended.append(result)
                signals = signals[1:]
        finish(JOB, workdir)
        yield workdir, ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=24, help="how many SIGKILLs (24)")
    parser.add_argument("--interrupts", type=int, default=6, help="SIGTERMs and SIGINTs (6)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    options = parser.parse_args()
    polite = [(signal.SIGTERM, signal.SIGINT)[i % 2] for i in range(options.interrupts)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        finish(JOB, folder / "whole")
        expected, everything, jobs = contents(folder / "whole"), [], 0
        for signals in ([signal.SIGKILL] * options.kills, polite):
            for workdir, ended in trials(folder / signals[0].name, signals, options.seed):
                found = contents(workdir)
                differing = [
                    key for key in {**expected, **found} if expected.get(key) != found.get(key)
                ]
                if differing:
                    sys.exit(f"{workdir} differs in {', '.join(differing)}")
                everything += ended
                jobs += 1
    for result in everything:
        late = result.number != signal.SIGKILL and result.seconds > 10
        if result.code == 0 or late:
            sys.exit(f"this is not how a job is to end: {result}")
    print("| signal | under way | times | of these within a save | longest until the end, s |")
    print("| --- | --- | --- | --- | --- |")
    groups = collections.defaultdict(list)
    for result in everything:
        groups[result.number.name, result.stage].append(result)
    for (number, stage), results in sorted(groups.items()):
        saving = sum(result.saving for result in results)
        longest = max(result.seconds for result in results)
        print(f"| {number} | {stage} | {len(results)} | {saving} | {longest:.1f} |")
    print(
        f"\n{jobs} jobs, ended {len(everything)} times: all like the one that was not, bit for bit"
    )


if __name__ == "__main__":
    main()
