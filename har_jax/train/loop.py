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
) -> Any:
    """Trains a method, or goes on where an earlier call in the same folder was cut.

    The result is a function of the method, the data, the seed and the sizes: where a run
    was cut, and how often, does not change it.

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

    def update(state, totals, data, indices):
        key = jax.random.fold_in(step_key, state.step)
        state, metrics = method.step(state, _take(data, indices), key)
        return state, jax.tree.map(jnp.add, totals, metrics)

    example = _take(on_device, jnp.asarray(batches(0)))
    state = jax.jit(method.init)(init_key, example)
    _, metrics = jax.eval_shape(method.step, state, example, step_key)
    no_totals = lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), metrics)
    update = jax.jit(update, donate_argnums=(0, 1))

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
            for step in range(start + 1, steps + 1):
                state, totals = update(state, totals, on_device, batches(step - 1))
                progress.update(step)
                if step % log_every == 0 or step == steps:
                    record = {"step": step, "epoch": step * batch_size / size, **_means(totals)}
                    _check_finite(record, title)
                    writer.write(record, {"examples_per_second": progress.report(record)})
                    totals = no_totals()
                if step % checkpoint_every == 0 or step == steps:
                    checkpoints.save(step, {"state": state, "totals": totals})
    return state


def diverged(what: str) -> FloatingPointError:
    """The error for a training run whose numbers are not finite, with the remedy."""
    return FloatingPointError(
        f"{what}: lower config.optimizer.learning_rate or the regularizer's strength"
    )


def _means(totals: Mapping[str, WeightedSum]) -> dict[str, float]:
    """Fetches the means of weighted sums."""
    return {name: float(total.mean()) for name, total in totals.items()}


def _take(data: Mapping[str, jax.Array], indices: Any) -> dict[str, jax.Array]:
    return {name: array[indices] for name, array in data.items()}


def _check_finite(record: Mapping[str, float], title: str) -> None:
    for name, value in record.items():
        if not math.isfinite(value):
            raise diverged(f"{title}: {name} is {value} at step {record['step']}")
