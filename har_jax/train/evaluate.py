"""Evaluation of a whole data set, example by example."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from har_jax.data.examples import Examples
from har_jax.losses import cross_entropy


class Evaluation(NamedTuple):
    """Of every example: its loss in nats, and the predicted class."""

    loss: Float[np.ndarray, " n"]
    prediction: Int[np.ndarray, " n"]


class Evaluator:
    """Compiles a method's ``predict`` once for any number of evaluations.

    Args:
      predict: ``(variables, inputs) -> logits``.
      batch_size: The last batch of a data set is padded up to it, and cut back.
    """

    def __init__(self, predict: Callable[[Mapping[str, Any], Array], Array], batch_size: int):
        self._batch_size = batch_size

        @jax.jit
        def evaluate(variables, inputs, labels):
            logits = predict(variables, inputs)
            return cross_entropy(logits, labels), jnp.argmax(logits, axis=-1)

        self._evaluate = evaluate

    def __call__(self, variables: Mapping[str, Any], examples: Examples) -> Evaluation:
        """Evaluates all ``examples``, in order."""
        size = len(examples)
        losses, predictions = [], []
        for start in range(0, size, self._batch_size):
            rows = np.arange(start, start + self._batch_size)
            batch = examples.take(np.minimum(rows, size - 1))
            loss, prediction = self._evaluate(variables, batch.inputs, batch.labels)
            losses.append(np.asarray(loss))
            predictions.append(np.asarray(prediction))
        return Evaluation(np.concatenate(losses)[:size], np.concatenate(predictions)[:size])
