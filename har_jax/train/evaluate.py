"""Whole data sets, example by example."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Float, Int, Num

from har_jax.data.examples import Examples
from har_jax.data.reading.encoded import EncodedImages
from har_jax.data.reading.reading import read
from har_jax.losses import cross_entropy
from har_jax.system import interruption
from har_jax.train.mesh import ROWS, WHOLE, data_mesh, map_over, own_rows, place_own_rows

Columns = dict[str, Num[np.ndarray, "n ..."]]

_READABLE = "har_jax:readable"  # among a function's results: whether each row is of an image


class ByExample:
    """Compiles a function of examples once for any number of data sets.

    Args:
      fun: ``(variables, inputs [B, ...], labels [B]) -> {name: [B, ...]}``, of each row from
        that row alone.
      batch_size: The last batch of a data set is padded up to it, and cut back. Rounded up to a
        multiple of the number of devices.
      mesh: The devices that batches are split over; the first one by default.
    """

    def __init__(
        self,
        fun: Callable[[Mapping[str, Any], Array, Array], Mapping[str, Num[Array, "B ..."]]],
        batch_size: int,
        mesh: Mesh | None = None,
    ) -> None:
        self._mesh = mesh or data_mesh(jax.devices()[:1])
        self._batch_size = math.ceil(batch_size / self._mesh.size) * self._mesh.size
        self._own = own_rows(self._mesh, self._batch_size)

        def of_rows(variables, inputs, labels, readable):
            return {**fun(variables, inputs, labels), _READABLE: readable}

        self._fun = jax.jit(
            map_over(self._mesh, of_rows, (WHOLE, ROWS, ROWS, ROWS), ROWS),
            out_shardings=NamedSharding(self._mesh, WHOLE),
        )

    def __call__(self, variables: Mapping[str, Any], examples: Examples) -> Columns:
        """The results for all ``examples``, in order; NaN or -1 where one could not be read.

        Raises:
          Interrupted: between two batches, if a command was asked to end.
        """
        size = len(examples)
        rows_of = functools.partial(_rows_of, size, self._batch_size)
        parts: list[Columns] = []
        for batch, (inputs, readable) in enumerate(self._inputs(examples, rows_of)):
            interruption.check()
            rows = inputs, examples.labels[rows_of(batch)[self._own]], readable
            placed = place_own_rows(self._mesh, rows, ROWS)
            results = {k: np.array(v) for k, v in self._fun(variables, *placed).items()}
            unreadable = ~results.pop(_READABLE)
            for values in results.values():
                values[unreadable] = _nothing(values)
            parts.append(results)
        return {name: np.concatenate([part[name] for part in parts])[:size] for name in parts[0]}

    def _inputs(
        self, examples: Examples, rows_of: Callable[[int], np.ndarray]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """This process's rows of each batch, and which of them could be read."""
        batches = math.ceil(len(examples) / self._batch_size)
        if isinstance(examples.inputs, EncodedImages):
            for decoded in read(examples.inputs, rows_of, 0, batches, seed=None, own=self._own):
                yield decoded.images, decoded.unreadable < 0
            return
        for batch in range(batches):
            rows = rows_of(batch)[self._own]
            yield examples.inputs[rows], np.ones(len(rows), bool)


class Evaluation(NamedTuple):
    """Of every example; NaN and -1 of one that could not be read.

    Attributes:
      loss: In nats.
      prediction: The class.
      top5: Whether the label is among the five likeliest.
      confidence: The probability of the predicted class.
      probabilities: Of every class, where they were asked for.
    """

    loss: Float[np.ndarray, " n"]
    prediction: Int[np.ndarray, " n"]
    top5: Int[np.ndarray, " n"]
    confidence: Float[np.ndarray, " n"]
    probabilities: Float[np.ndarray, "n K"] | None = None


class Evaluator:
    """Evaluates a method's ``predict``.

    Args:
      predict: ``(variables, inputs) -> logits``.
      batch_size: Of :class:`ByExample`, as the mesh is.
      mesh: The devices.
      probabilities: Whether to return those of all classes.
    """

    def __init__(
        self,
        predict: Callable[[Mapping[str, Any], Array], Array],
        batch_size: int,
        mesh: Mesh | None = None,
        *,
        probabilities: bool = False,
    ) -> None:
        def evaluate(variables, inputs, labels):
            logits = predict(variables, inputs)
            prediction = jnp.argmax(logits, axis=-1)
            results = {
                "loss": cross_entropy(logits, labels),
                "prediction": prediction,
                "top5": (_rank(logits, labels) < 5).astype(jnp.int32),
                "confidence": jnp.exp(-cross_entropy(logits, prediction)),
            }
            if probabilities:
                results["probabilities"] = jax.nn.softmax(logits.astype(jnp.float32))
            return results

        self._evaluate = ByExample(evaluate, batch_size, mesh)

    def __call__(self, variables: Mapping[str, Any], examples: Examples) -> Evaluation:
        """Evaluates all ``examples``, in order."""
        return Evaluation(**self._evaluate(variables, examples))


def _rank(logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> Int[Array, " B"]:
    """How many classes are held to be more likely than the label."""
    own = jnp.take_along_axis(logits, labels[:, jnp.newaxis], axis=-1)
    return jnp.sum(logits > own, axis=-1)


def _rows_of(size: int, batch_size: int, batch: int) -> Int[np.ndarray, " B"]:
    """The rows of a batch; the last one is filled up."""
    return np.minimum(batch * batch_size + np.arange(batch_size), size - 1)


def _nothing(values: np.ndarray) -> float | int:
    return np.nan if np.issubdtype(values.dtype, np.floating) else -1
