"""The training loop: it knows a method's three functions and nothing else of it."""

import pathlib
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from har_jax.methods.shared.method import Method
from har_jax.system import interruption
from har_jax.system.processes import is_first
from har_jax.train.checkpoints import Checkpoints
from har_jax.train.divergence import OnNonfinite
from har_jax.train.feed import Beside, open_feed
from har_jax.train.memory import checked
from har_jax.train.mesh import ROWS, data_mesh, place
from har_jax.train.metrics import MetricsWriter
from har_jax.train.outcome import Dispatch, Outcome
from har_jax.train.peaks import Peaks
from har_jax.train.progress import Progress
from har_jax.train.updates import compile_updates


def fit(
    method: Method,
    data: Mapping[str, Any],
    directory: pathlib.Path,
    *,
    steps: int,
    batch_size: int,
    seed: int,
    log_every: int,
    checkpoint_every: int,
    title: str,
    beside: Mapping[str, Beside] | None = None,
    mesh: Mesh | None = None,
    on_nonfinite: OnNonfinite = "stop",
    steps_per_dispatch: int | None = None,
) -> Any:
    """Trains a method, or goes on where an earlier call in the same folder was cut.

    The result is a function of the method, the data, the seed and the sizes: where a run
    was cut, and how often, does not change it.

    On GPU and TPU many steps are one dispatch, a loop on the device, and the host only sends the
    indices of their batches and fetches metrics. On CPU every step is a dispatch of its own: it
    costs nothing there, and XLA:CPU runs loops of convolutions other than ours many times slower.

    Batches are split over the devices of a mesh, on each of which all arrays lie; images in files
    are decoded as they are needed. The batches are the same however many devices there are.

    Args:
      method: What is trained; made with the axis of the mesh, if that has several devices.
      data: Arrays ``[n, ...]``, whose rows make up the batches, ``labels`` among them; ``inputs``
        may be :class:`har_jax.data.reading.encoded.EncodedImages`.
      directory: Gets ``checkpoints/``, ``metrics.jsonl`` and ``tensorboard/``.
      steps: The number of updates.
      batch_size: Examples per update.
      seed: Of the initialization, the order of the examples and the steps' randomness.
      log_every: Steps per record; metrics are means over them.
      checkpoint_every: Steps per checkpoint.
      title: The name to show.
      beside: Other examples that come with every batch, as :func:`har_jax.train.feed.open_feed`
        takes them.
      mesh: Of :func:`har_jax.train.mesh.data_mesh`; the first device by default.
      on_nonfinite: What a step does after which a metric or a number of the state is not finite:
        end the run, or change nothing but the count of steps. Records then have ``skipped``, the
        number of such steps among theirs, and means of the others, if there are any.
      steps_per_dispatch: At most; 1 by default on CPU, 50 elsewhere. All from 2 on give the same
        bits.

    Returns:
      The method's state after the last step.

    Raises:
      FloatingPointError: if a step is not finite and to end the run, or if all steps of a run,
        or of records of 100 steps together, were skipped. Checkpoints are of before.
      Interrupted: after Ctrl-C or SIGTERM, with a checkpoint of the last step that was made.
      CheckpointError: if a checkpoint cannot be saved, or none restored.
      MemoryShortage: before the first step, if it needs more memory than there is.
      ValueError: if the folder holds a run of more steps.
    """
    interruption.check()  # before what takes long to compile
    mesh = mesh or data_mesh(jax.devices()[:1])
    if steps_per_dispatch is None:
        steps_per_dispatch = 1 if jax.default_backend() == "cpu" else 50
    feed = open_feed(data, batch_size, seed, mesh, range(steps), beside)
    most = min(steps_per_dispatch, feed.most)
    one_by_one = steps_per_dispatch == 1
    program = compile_updates(method, feed, mesh, seed, on_nonfinite, one_by_one=one_by_one)
    updates = [checked(update, mesh, title) for update in program.updates]

    with (
        interruption.deferred() as interrupted,
        Checkpoints(directory / "checkpoints") as checkpoints,
    ):
        state, totals = program.state, program.no_totals()
        if restored := checkpoints.restore_latest({"state": state, "totals": totals}):
            state, totals = restored["state"], restored["totals"]
        start = int(state.step)
        if start > steps:
            raise ValueError(f"{directory} holds a run of {start} steps, more than {steps}")
        if 0 < start < steps:
            print(f"{title}: goes on from step {start}")
        if start < steps:
            print(f"{title}: compiling", flush=True)
        with (
            MetricsWriter(directory, resume_step=start, writes=is_first()) as writer,
            Progress(title, start, steps, batch_size) as progress,
        ):
            peaks = Peaks(title, getattr(data["inputs"], "names", None))
            outcome = Outcome(title, on_nonfinite, checkpoints, writer, progress, peaks, steps)
            pace = _Pace(most)
            several = jax.process_count() > 1
            done, stop = start, False
            pending: Dispatch | None = None
            while done < steps and not stop:
                left = [every - done % every for every in (log_every, checkpoint_every)]
                count = min(*left, steps - done, pace.steps)
                sent = feed.send(done, count, most)
                asked = place(mesh, np.full(mesh.size, interrupted(), np.float32), ROWS)
                (state, totals), finite, agreed = updates[program.due(done)](
                    (state, totals), feed.resident, sent, count, asked
                )
                done += count
                progress.update(done)
                stop = interrupted() and not several
                if pending:  # is looked at while the device is at work on what comes after
                    outcome.settle(pending)
                    pace.measure(pending.steps)
                    stop = stop or bool(pending.agreed)
                pending = Dispatch(done, count, finite, agreed)
                if done % log_every == 0 or done == steps:
                    jax.tree.map(lambda total: total.copy_to_host_async(), totals)
                    at = {"step": done, "epoch": done * batch_size / len(data["labels"])}
                    pending = pending._replace(at=at, totals=totals)
                    totals = program.no_totals()
                if done % checkpoint_every == 0 or done == steps or stop:
                    # A run that goes on from here does not make this record again.
                    outcome.settle(pending)
                    pending = None
                    checkpoints.save(done, {"state": state, "totals": totals})
            if stop and done < steps:
                print(f"{title}: saved after step {done} of {steps}", flush=True)
    return state


class _Pace:
    """How many steps to dispatch at once: so many that an interrupt has to wait for a second.

    Args:
      most: At most.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._last = time.perf_counter()
        self.steps = 1

    def measure(self, count: int) -> None:
        """Tells that ``count`` steps were finished since the last time."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        if jax.process_count() == 1:  # several have to do the same, and clocks differ
            self.steps = max(1, min(self._most, int(count / max(seconds, 1e-9))))
