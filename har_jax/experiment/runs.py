"""Runs: one experiment in one workdir each, skipped where complete, gone on with where cut."""

import concurrent.futures
import contextlib
import dataclasses
import json
import multiprocessing
import os
import pathlib
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from absl import logging
from ml_collections import config_dict

from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.workdir import StageError, WorkdirError
from har_jax.system import interruption
from har_jax.system.files import write_json
from har_jax.system.interruption import SECONDS_TO_SAVE, end_with_parent
from har_jax.system.terminal import warn_in_lines
from har_jax.train.compilation import use_compilation_cache

_SECONDS_BETWEEN_CHECKS = 0.2
_ENDED = "ended.json"  # methods that the report of a workdir does without, and why

Results = Mapping[str, Any]
"""What a run's ``results.json`` holds, and ``ended``, see :func:`execute`."""


@dataclasses.dataclass(frozen=True)
class Run:
    """An experiment to be made.

    Attributes:
      config: Validated.
      workdir: Where.
      stages: Those that are made, which then have no results; None for all.
      shared: A workdir whose stages before the methods' are taken where this one lacks them.
    """

    config: config_dict.ConfigDict
    workdir: pathlib.Path
    stages: tuple[str, ...] | None = None
    shared: pathlib.Path | None = None


def execute(runs: Sequence[Run], jobs: int) -> list[Results | None]:
    """Makes all runs, several at once if there are to be several jobs.

    Args:
      runs: What to make.
      jobs: 1 makes one after the other in this process. More are processes, that share the
        processor cores out among them and write ``log.txt`` in each workdir.

    Returns:
      The results of each; None for one that diverged, and nothing of one of some stages. Where
      methods could not be trained there is ``ended``, by method why, and nothing else where none
      could.

    Raises:
      StageError: if a run ends for another reason than one of its methods.
    """
    use_compilation_cache()
    if jobs == 1:
        return [_execute(run) for run in runs]
    begun, results = time.monotonic(), {}
    with _pool(jobs) as pool:
        futures = {pool.submit(_execute_logged, run): run.workdir for run in runs}
        for done in _as_completed(futures):
            results[futures[done]] = done.result()
            minutes = (time.monotonic() - begun) / 60
            count = f"{len(results)} of {len(runs)} runs"
            print(f"{futures[done]}: done, {count} after {minutes:.1f} min", flush=True)
    return [results[run.workdir] for run in runs]


def _as_completed(futures: Iterable[Future]) -> Iterator[Future]:
    """As that of ``concurrent.futures``, but left when a signal comes."""
    pending = set(futures)
    while pending:
        done, pending = concurrent.futures.wait(
            pending, _SECONDS_BETWEEN_CHECKS, concurrent.futures.FIRST_COMPLETED
        )
        interruption.check()
        yield from done


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
    """Processes with cores of their own, that save and end with an error or a Ctrl-C."""
    context = multiprocessing.get_context("spawn")
    slots = context.Queue()
    for slot in range(jobs):
        slots.put(slot)
    pool = concurrent.futures.ProcessPoolExecutor(
        jobs, context, initializer=_begin_process, initargs=(slots, jobs)
    )
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        children = multiprocessing.active_children()
        for child in children:
            child.terminate()
        for child in children:
            child.join(SECONDS_TO_SAVE - 1)
        raise
    pool.shutdown()


def _begin_process(slots: Any, jobs: int) -> None:
    end_with_parent()  # which would collect the runs
    slot = slots.get()
    if hasattr(os, "sched_setaffinity"):  # Linux
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[slot % len(cores) :: jobs])
    logging.set_verbosity(logging.FATAL)
    use_compilation_cache()


def _execute_logged(run: Run) -> Results | None:
    run.workdir.mkdir(parents=True, exist_ok=True)
    warn_in_lines(str(run.workdir))
    path, errors = run.workdir / "log.txt", "backslashreplace"
    with (
        path.open("a", buffering=1, encoding="utf-8", errors=errors) as log,
        contextlib.redirect_stdout(log),
    ):
        return _execute(run)


def _execute(run: Run) -> Results | None:
    print(f"== {run.workdir}", flush=True)
    path = run.workdir / _ENDED
    ended: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    while left := tuple(method for method in run.config.methods if method not in ended):
        config = run.config
        if ended:
            config = config.copy_and_resolve_references()
            config.methods = left
        try:
            experiment = Experiment(config, run.workdir)
            if run.shared is not None:
                take(experiment.common_stages, run.shared, run.workdir)
            for stage in run.stages or (None,):
                experiment.run(stage)
        except FloatingPointError as error:
            print(f"{run.workdir}: {error}", flush=True)
            return None
        except WorkdirError:
            raise
        except StageError as error:
            print(f"{run.workdir}: {error}", flush=True)
            if error.method is None:
                raise
            ended[error.method] = str(error)
            if set(ended) < set(run.config.methods):
                write_json(path, ended)
            continue
        if run.stages is not None:
            return {}
        results = json.loads((run.workdir / "report" / "results.json").read_text())
        return {**results, "ended": ended} if ended else results
    return {"ended": ended}


def take(stages: Iterable[str], shared: pathlib.Path, workdir: pathlib.Path) -> None:
    """Copies the folders of stages that are there and not here, whole or not at all."""
    for stage in stages:
        if (shared / stage).is_dir() and not (workdir / stage).exists():
            partial = workdir / f".{stage}.tmp"
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
            shutil.copytree(shared / stage, partial)
            partial.rename(workdir / stage)
