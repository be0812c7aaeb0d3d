"""Evaluation of a whole data set, example by example."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Float, Int

from har_jax.data.examples import Examples
from har_jax.losses import cross_entropy
from har_jax.train.mesh import ROWS, WHOLE, data_mesh, map_over, place


class Evaluation(NamedTuple):
    """Of every example: its loss in nats, and the predicted class."""

    loss: Float[np.ndarray, " n"]
    prediction: Int[np.ndarray, " n"]


class Evaluator:
    """Compiles a method's ``predict`` once for any number of evaluations.

    Args:
      predict: ``(variables, inputs) -> logits``, of each row from that row alone.
      batch_size: The last batch of a data set is padded up to it, and cut back. Rounded up to a
        multiple of the number of devices.
      mesh: The devices that batches are split over; the first one by default.
    """

    def __init__(
        self,
        predict: Callable[[Mapping[str, Any], Array], Array],
        batch_size: int,
        mesh: Mesh | None = None,
    ) -> None:
        self._mesh = mesh or data_mesh(jax.devices()[:1])
        self._batch_size = math.ceil(batch_size / self._mesh.size) * self._mesh.size

        def evaluate(variables, inputs, labels):
            logits = predict(variables, inputs)
            return cross_entropy(logits, labels), jnp.argmax(logits, axis=-1)

        self._evaluate = jax.jit(
            map_over(self._mesh, evaluate, (WHOLE, ROWS, ROWS), ROWS),
            out_shardings=NamedSharding(self._mesh, WHOLE),
        )

    def __call__(self, variables: Mapping[str, Any], examples: Examples) -> Evaluation:
        """Evaluates all ``examples``, in order."""
        size = len(examples)
        losses, predictions = [], []
        for start in range(0, size, self._batch_size):
            rows = np.arange(start, start + self._batch_size)
            batch = examples.take(np.minimum(rows, size - 1))
            placed = place(self._mesh, (batch.inputs, batch.labels), ROWS)
            loss, prediction = self._evaluate(variables, *placed)
            losses.append(np.asarray(loss))
            predictions.append(np.asarray(prediction))
        return Evaluation(np.concatenate(losses)[:size], np.concatenate(predictions)[:size])
