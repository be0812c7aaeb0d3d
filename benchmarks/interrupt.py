"""SIGTERM and Ctrl-C at random moments of every part of the main job; see :mod:`benchmarks.kill`.

Each job is asked to end once in each part, at a moment that is as likely to be any of those that
the part has in a job that is not, or when the part ends, if it is shorter this time; and goes on
from there to the next.
"""

import dataclasses
import itertools
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import kill
from har_jax.train.checkpoints import Checkpoints

# Of few checkpoints, which would take most of the time.
JOB = (
    *kill.JOB,
    "--config.pretrain.epochs=20",
    "--config.train.epochs=10",
    "--config.checkpoint_every=25",
)
START = "start"  # until the first stage begins
PARTS = (
    START,
    *itertools.chain.from_iterable(
        (stage, f"{stage}: evaluation") if stage in kill.TRAINED else (stage,)
        for stage in kill.STAGES
    ),
    "predict",
)
_POLL_SECONDS = 0.0005


@dataclasses.dataclass(frozen=True)
class Asked:
    """How a job ended that was asked to.

    Attributes:
      number: The signal.
      part: What was under way.
      code: The exit status.
      seconds: From the signal to the end.
      said: What it said on the standard error.
      complete: Whether it had printed its last line before, and all was there.
    """

    number: signal.Signals
    part: str
    code: int
    seconds: float
    said: str
    complete: bool

    @property
    def lost(self) -> bool:
        """Whether the job went on as if nobody had asked."""
        return self.code == 0 and not self.complete

    @property
    def wrong(self) -> bool:
        """Whether this is no way to end: with another status, too late, or with a traceback."""
        ends = {-self.number, 128 + self.number, *((0,) if self.complete else ())}
        return self.code not in ends or self.seconds > 10 or len(self.said.splitlines()) > 1


class Job:
    """A job in a workdir, whose parts are watched from outside, by the files that are there.

    Args:
      workdir: Where it is.
      steps: The number of steps of each model.
    """

    def __init__(self, workdir: pathlib.Path, steps: Mapping[str, str]) -> None:
        self._workdir, self._steps = workdir, steps
        self._output = workdir.with_suffix(".out")

    def start(self, part: str) -> subprocess.Popen:
        """Starts it, or lets it go on, so that it comes to a part."""
        workdir = f"--workdir={self._workdir}"
        stage = ("--stage=predict",) if part == "predict" else ()
        command = [sys.executable, "-m", "har_jax.main", *JOB, workdir, *stage]
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with self._output.open("w") as file:
            streams = dict(stdout=file, stderr=subprocess.PIPE, text=True)
            return subprocess.Popen(command, cwd=kill.ROOT, **streams)

    def part(self) -> str:
        """What is under way, or what a job that goes on begins with."""
        for stage in (*kill.STAGES, "predict"):
            folder = self._workdir / stage
            if kill.is_complete(folder):
                continue
            if not folder.exists():
                return START if stage == kill.STAGES[0] else stage
            last = folder / "checkpoints" / self._steps.get(stage, "none") / "digests.json"
            return f"{stage}: evaluation" if last.exists() else stage
        return "predict"

    def begun(self) -> float:
        """When the stage that is under way was begun; 0 where none is."""
        record = self._workdir / self.part().partition(":")[0] / "stage.json"
        return record.stat().st_mtime if record.exists() else 0.0

    def is_complete(self, part: str) -> bool:
        """Whether a process has said its last line, and its stages are complete."""
        stages = ("predict",) if part == "predict" else kill.STAGES
        last = "predictions: " if part == "predict" else "report: "
        lines = self._output.read_text().splitlines()
        said = bool(lines) and lines[-1].startswith(last)
        return said and all(kill.is_complete(self._workdir / stage) for stage in stages)


def measure(workdir: pathlib.Path) -> tuple[dict[str, str], dict[str, float]]:
    """Runs a job to its end, twice: what it compiles takes time in the first.

    Returns:
      The last step of each model, and the seconds that each part takes.
    """
    kill.finish(JOB, workdir)
    latest = {
        stage: Checkpoints(workdir / stage / "checkpoints").latest() for stage in kill.TRAINED
    }
    steps = {stage: path.name for stage, path in latest.items() if path is not None}
    again = Job(workdir.with_name(f"{workdir.name}-again"), steps)
    seconds = dict.fromkeys(PARTS, 0.0)
    for last in ("report", "predict"):
        process, now = again.start(last), time.perf_counter()
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
            before, now = now, time.perf_counter()
            if last == "report" or again.begun():  # and not while the second process starts
                seconds[again.part()] += now - before
        process.communicate()
    kill.finish((*JOB, "--stage=predict"), workdir)
    return steps, seconds


def ask(
    job: Job, part: str, number: signal.Signals, seconds: float, rng: random.Random
) -> Asked | None:
    """Lets a job come to a part, and asks it to end there; None if it had ended before."""
    begun = job.begun()
    process = job.start(part)
    if part != START:
        there = PARTS.index(part)
        due = lambda: PARTS.index(job.part()) >= there and job.begun() != begun
        while not due() and process.poll() is None:
            time.sleep(_POLL_SECONDS)
    under_way = lambda: START if job.begun() == begun else job.part()
    moment, during = time.perf_counter() + rng.uniform(0, seconds), under_way()
    while time.perf_counter() < moment and under_way() == during:
        time.sleep(_POLL_SECONDS)
    found = under_way()
    if process.poll() is not None:
        process.communicate()
        return None
    complete = job.is_complete(part)
    process.send_signal(number)
    sent = time.perf_counter()
    said = process.communicate()[1]
    return Asked(number, found, process.returncode, time.perf_counter() - sent, said, complete)


def trials(
    folder: pathlib.Path,
    signals: Sequence[signal.Signals],
    steps: Mapping[str, str],
    seconds: Mapping[str, float],
    seed: int,
) -> Iterator[tuple[pathlib.Path, list[Asked]]]:
    """Jobs that were asked to end in each of their parts, and then finished."""
    rng, left = random.Random(seed), list(signals)
    for number in itertools.count():
        if not left:
            return
        workdir, asked = folder / str(number), []
        job = Job(workdir, steps)
        for part in PARTS:
            if part == "predict":
                kill.finish(JOB, workdir)
            if left and (result := ask(job, part, left[0], seconds[part], rng)):
                print(result, file=sys.stderr, flush=True)
                asked.append(result)
                left.pop(0)
        kill.finish((*JOB, "--stage=predict"), workdir)
        yield workdir, asked


def table(asked: Sequence[Asked]) -> str:
    """What came of it, by part, in Markdown."""
    lines = [
        "| under way | SIGTERM | SIGINT | lost | without a save | longest until the end, s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for part in PARTS:
        those = [each for each in asked if each.part == part]
        if those:
            counts = [
                sum(each.number == number for each in those)
                for number in (signal.SIGTERM, signal.SIGINT)
            ]
            lost = sum(each.lost for each in those)
            forced = sum("before it could save" in each.said for each in those)
            longest = max(each.seconds for each in those)
            row = [part, *counts, lost, forced, f"{longest:.1f}"]
            lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)
