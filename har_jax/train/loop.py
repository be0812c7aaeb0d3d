"""The training loop: it knows a method's three functions and nothing else of it."""

import math
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from har_jax import seeds
from har_jax.data.batches import Batches
from har_jax.methods.base import Method
from har_jax.objective import WeightedSum
from har_jax.train.checkpoints import Checkpoints
from har_jax.train.compilation import compiler_options
from har_jax.train.metrics import MetricsWriter
from har_jax.train.progress import Progress


def fit(
    method: Method,
    data: Mapping[str, np.ndarray],
    directory: pathlib.Path,
    *,
    steps: int,
    batch_size: int,
    seed: int,
    log_every: int,
    checkpoint_every: int,
    title: str,
    steps_per_dispatch: int | None = None,
) -> Any:
    """Trains a method, or goes on where an earlier call in the same folder was cut.

    The result is a function of the method, the data, the seed and the sizes: where a run
    was cut, and how often, does not change it.

    On GPU and TPU many steps are one dispatch, a ``lax.scan``, and the host only sends the
    indices of their batches and fetches metrics. On CPU every step is a dispatch of its own: it
    costs nothing there, and XLA:CPU runs loops of convolutions other than ours many times slower.

    Args:
      method: What is trained.
      data: Arrays ``[n, ...]``, whose rows make up the batches; they are put on the device.
      directory: Gets ``checkpoints/``, ``metrics.jsonl`` and ``tensorboard/``.
      steps: The number of updates.
      batch_size: Examples per update.
      seed: Of the initialization, the order of the examples and the steps' randomness.
      log_every: Steps per record; metrics are means over them.
      checkpoint_every: Steps per checkpoint.
      title: The name to show.
      steps_per_dispatch: By default 1 on CPU, 50 elsewhere.

    Returns:
      The method's state after the last step.

    Raises:
      FloatingPointError: if a metric is not finite.
      ValueError: if the folder holds a run of more steps.
    """
    size = len(data["labels"])
    batches = Batches(size, batch_size, seeds.derive(seed, "batches"))
    init_key = jax.random.key(seeds.derive(seed, "init"))
    step_key = jax.random.key(seeds.derive(seed, "steps"))
    on_device = {name: jnp.asarray(array) for name, array in data.items()}

    def step(carry, indices, data):
        state, totals = carry
        key = jax.random.fold_in(step_key, state.step)
        state, metrics = method.step(state, _take(data, indices), key)
        return state, jax.tree.map(jnp.add, totals, metrics)

    def update(carry, data, indices):  # of one step: [B]; of several: [steps, B]
        if indices.ndim == 1:
            return step(carry, indices, data)
        scanned = lambda carry, indices: (step(carry, indices, data), None)
        return jax.lax.scan(scanned, carry, indices)[0]

    example = _take(on_device, jnp.asarray(batches(0)))
    state = jax.jit(method.init)(init_key, example)
    _, metrics = jax.eval_shape(method.step, state, example, step_key)
    no_totals = lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), metrics)
    update = jax.jit(update, donate_argnums=0, compiler_options=compiler_options())
    if steps_per_dispatch is None:
        steps_per_dispatch = 1 if jax.default_backend() == "cpu" else 50

    with Checkpoints(directory / "checkpoints") as checkpoints:
        totals = no_totals()
        if restored := checkpoints.restore_latest({"state": state, "totals": totals}):
            state, totals = restored["state"], restored["totals"]
        start = int(state.step)
        if start > steps:
            raise ValueError(f"{directory} holds a run of {start} steps, more than {steps}")
        if 0 < start < steps:
            print(f"{title}: goes on from step {start}")
        with (
            MetricsWriter(directory, resume_step=start) as writer,
            Progress(title, start, steps, batch_size) as progress,
        ):
            done, pending = start, None
            while done < steps:
                left = [every - done % every for every in (log_every, checkpoint_every)]
                if steps_per_dispatch > 1 and min(*left, steps - done) >= steps_per_dispatch:
                    chosen = range(done, done + steps_per_dispatch)
                    indices = np.stack([batches(step) for step in chosen])
                    done += steps_per_dispatch
                else:
                    indices = batches(done)
                    done += 1
                state, totals = update((state, totals), on_device, indices)
                progress.update(done)
                if pending:  # is fetched while the device is at work on what comes after
                    _record(*pending, title, writer, progress)
                    pending = None
                if done % log_every == 0 or done == steps:
                    jax.tree.map(lambda total: total.copy_to_host_async(), totals)
                    pending = {"step": done, "epoch": done * batch_size / size}, totals
                    totals = no_totals()
                if done % checkpoint_every == 0 or done == steps:
                    if pending:  # a run that goes on from here does not make this record again
                        _record(*pending, title, writer, progress)
                        pending = None
                    checkpoints.save(done, {"state": state, "totals": totals})
    return state


def diverged(what: str) -> FloatingPointError:
    """The error for a training run whose numbers are not finite, with the remedy."""
    return FloatingPointError(
        f"{what}: lower config.optimizer.learning_rate or the regularizer's strength"
    )


def _record(
    place: Mapping[str, float],
    totals: Mapping[str, WeightedSum],
    title: str,
    writer: MetricsWriter,
    progress: Progress,
) -> None:
    """Fetches metrics, and writes and shows their means."""
    # On the host: on the device the division would wait for the steps that are under way.
    means = {
        name: float(total / np.where(weight == 0, np.float32(1), weight))
        for name, (total, weight) in jax.device_get(totals).items()
    }
    record = {**place, **means}
    for name, value in means.items():
        if not math.isfinite(value):
            raise diverged(f"{title}: {name} is {value} at step {place['step']}")
    writer.write(record, {"examples_per_second": progress.report(record)})


def _take(data: Mapping[str, jax.Array], indices: Any) -> dict[str, jax.Array]:
    return {name: array[indices] for name, array in data.items()}
