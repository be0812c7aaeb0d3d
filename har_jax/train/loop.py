"""The training loop: it knows a method's three functions and nothing else of it."""

import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from har_jax.methods.base import Method, Metrics
from har_jax.methods.peak import Peak, higher, split
from har_jax.system import interruption, seeds
from har_jax.system.processes import is_first
from har_jax.train.checkpoints import Checkpoints
from har_jax.train.compilation import compiler_options
from har_jax.train.divergence import OnNonfinite, choose, diverged, finiteness, first_failure
from har_jax.train.feed import Feed, open_feed
from har_jax.train.memory import checked
from har_jax.train.mesh import ROWS, ROWS_OF_STEPS, WHOLE, axis_of, data_mesh, map_over, place
from har_jax.train.metrics import MetricsWriter
from har_jax.train.peaks import Peaks
from har_jax.train.progress import Progress

_MOST_SKIPPED = 100  # one behind the other


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
        may be :class:`har_jax.data.encoded.EncodedImages`.
      directory: Gets ``checkpoints/``, ``metrics.jsonl`` and ``tensorboard/``.
      steps: The number of updates.
      batch_size: Examples per update.
      seed: Of the initialization, the order of the examples and the steps' randomness.
      log_every: Steps per record; metrics are means over them.
      checkpoint_every: Steps per checkpoint.
      title: The name to show.
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
    feed = open_feed(data, batch_size, seed, mesh, range(steps))
    most = min(steps_per_dispatch, feed.most)
    program = _compile(method, feed, mesh, seed, on_nonfinite)
    update = checked(program.update, mesh, title)

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
            outcome = _Outcome(title, on_nonfinite, checkpoints, writer, progress, peaks, steps)
            pace = _Pace(most)
            several = jax.process_count() > 1
            done, stop = start, False
            pending: _Dispatch | None = None
            while done < steps and not stop:
                left = [every - done % every for every in (log_every, checkpoint_every)]
                count = min(*left, steps - done, pace.steps)
                sent = feed.send(done, count, most)
                asked = place(mesh, np.full(mesh.size, interrupted(), np.float32), ROWS)
                (state, totals), finite, agreed = update(
                    (state, totals), feed.resident, sent, count, asked
                )
                done += count
                progress.update(done)
                stop = interrupted() and not several
                if pending:  # is looked at while the device is at work on what comes after
                    outcome.settle(pending)
                    pace.measure(pending.steps)
                    stop = stop or bool(pending.agreed)
                pending = _Dispatch(done, count, finite, agreed)
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


class _Totals(NamedTuple):
    """What comes together until the next record: sums, peaks, and the steps that were skipped."""

    metrics: Metrics
    peaks: dict[str, Peak]
    skipped: Int[Array, ""]


class _Dispatch(NamedTuple):
    """Steps that the device was sent, and that the host has yet to look at.

    Attributes:
      done: The step after them.
      steps: How many they are.
      finite: Whether each was finite in each respect, ``[S]``.
      agreed: Whether any process was asked to end before them: all see this of the same steps.
      at: Step and epoch of the record that they complete, if they do.
      totals: Its totals.
    """

    done: int
    steps: int
    finite: dict[str, Bool[Array, " S"]]
    agreed: Bool[Array, ""]
    at: dict[str, float] | None = None
    totals: _Totals | None = None


class _Outcome:
    """Looks at what steps did: ends the run if it must, and writes their record."""

    def __init__(
        self,
        title: str,
        on_nonfinite: OnNonfinite,
        checkpoints: Checkpoints,
        writer: MetricsWriter,
        progress: Progress,
        peaks: Peaks,
        steps: int,
    ) -> None:
        self._title, self._skips = title, on_nonfinite == "skip"
        self._checkpoints = checkpoints
        self._writer, self._progress, self._peaks = writer, progress, peaks
        self._steps, self._barren = steps, 0

    def settle(self, dispatch: _Dispatch) -> None:
        failure = first_failure(jax.device_get(dispatch.finite))
        if failure and not self._skips:
            offset, names = failure
            last = self._checkpoints.latest()
            raise diverged(
                f"{self._title}: at step {dispatch.done - dispatch.steps + offset + 1} not finite: "
                f"{', '.join(names)}; the last checkpoint is {last or 'none yet'}",
                "or skip such steps with config.on_nonfinite=skip",
            )
        if dispatch.at is None:
            return
        metrics, peaks, skipped = jax.device_get(dispatch.totals)
        # On the host: on the device the division would wait for the steps that are under way.
        means = {
            name: float(value.total / value.weight)
            for name, value in metrics.items()
            if value.weight or not skipped
        }
        self._barren = 0 if means else self._barren + int(skipped)
        if self._barren >= min(_MOST_SKIPPED, self._steps):
            raise diverged(
                f"{self._title}: none of the last {self._barren} steps up to step {dispatch.done} "
                "was finite"
            )
        record = {**dispatch.at, **means, **({"skipped": int(skipped)} if self._skips else {})}
        for peak in peaks.values():
            record |= self._peaks.told(peak, dispatch.done)
        self._writer.write(record, {"examples_per_second": self._progress.report(record)})


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


class _Program(NamedTuple):
    """What runs on the devices.

    Attributes:
      state: The method's, before the first step.
      no_totals: Makes totals of nothing.
      update: Of :func:`_updates`, compiled at its first call.
    """

    state: Any
    no_totals: Callable[[], _Totals]
    update: Callable[..., Any]


def _compile(
    method: Method, feed: Feed, mesh: Mesh, seed: int, on_nonfinite: OnNonfinite
) -> _Program:
    # Keys are made inside of what is compiled: on several hosts it takes no array of one.
    key = lambda name: jax.random.key(seeds.derive(seed, name))
    example, axis = feed.example(), axis_of(mesh)
    init = lambda batch: method.init(key("init"), batch)
    state = jax.jit(init, out_shardings=NamedSharding(mesh, WHOLE))(example)
    one_step = map_over(mesh, method.step, (WHOLE, ROWS, WHOLE), WHOLE)
    _, metrics = jax.eval_shape(one_step, state, example, key("steps"))
    zeros, no_peaks = split(jax.tree.map(lambda like: np.zeros(like.shape, like.dtype), metrics))
    updates = _updates(method, feed, lambda: key("steps"), on_nonfinite, axis)
    specs = (WHOLE, WHOLE, ROWS_OF_STEPS, WHOLE, ROWS)
    return _Program(
        state=state,
        no_totals=lambda: _Totals(*place(mesh, (zeros, no_peaks, np.int32(0)))),
        update=jax.jit(
            map_over(mesh, updates, specs, WHOLE),
            donate_argnums=0,
            compiler_options=compiler_options(),
        ),
    )


def _updates(
    method: Method,
    feed: Feed,
    make_key: Callable[[], PRNGKeyArray],
    on_nonfinite: OnNonfinite,
    axis: str | None,
) -> Callable[..., Any]:
    """A function that makes the updates of what is sent, ``[S, ...]``, the first ``count`` of them.

    It is a loop whose body does not depend on how many there are, and so neither do its bits. It
    is also told by each device's process whether that was asked to end, and says if any was.
    """

    def step(carry, resident, sent):
        state, totals = carry
        batch = feed.batch(resident, sent)
        new, metrics = method.step(state, batch, jax.random.fold_in(make_key(), state.step))
        finite = finiteness(metrics, new)
        good = jnp.all(jnp.stack(list(finite.values())))
        if on_nonfinite == "skip":
            new = choose(good, new, state.replace(step=new.step))
            metrics = choose(good, metrics, jax.tree.map(jnp.zeros_like, metrics))
        sums, peaks = split(metrics)
        return (
            new,
            _Totals(
                metrics=jax.tree.map(jnp.add, totals.metrics, sums),
                peaks=higher(totals.peaks, peaks),
                skipped=totals.skipped + 1 - good.astype(jnp.int32),
            ),
        ), finite

    def update(carry, resident, sent, count, asked):
        # One process has no other to agree with, and spares itself a second all-reduce.
        several = axis is not None and jax.process_count() > 1
        agreed = jax.lax.psum(asked.sum(), axis) > 0 if several else jnp.zeros((), bool)
        carry, finite = make(carry, resident, sent, count)
        return carry, finite, agreed

    def make(carry, resident, sent, count):
        of_step = lambda index: jax.tree.map(lambda x: x[index], sent)
        most = len(jax.tree.leaves(sent)[0])
        if most == 1:
            carry, finite = step(carry, resident, of_step(0))
            return carry, jax.tree.map(lambda flag: flag[np.newaxis], finite)

        def body(index, loop):
            carry, finite = loop
            carry, flags = step(carry, resident, of_step(index))
            return carry, jax.tree.map(lambda all, one: all.at[index].set(one), finite, flags)

        _, names = jax.eval_shape(step, carry, resident, of_step(0))
        finite = jax.tree.map(lambda _: jnp.ones(most, bool), names)
        return jax.lax.fori_loop(0, count, body, (carry, finite))

    return update
