"""What a method keeps of each training example from one epoch to the next: a row of each."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

Memory = Mapping[str, Array]
"""By name, ``[n, ...]``: a row of every training example."""


class Remembered(NamedTuple):
    """What is to be kept of the rows of a batch.

    Attributes:
      example: Which one of the training set each row is.
      values: By name, as the memory has them.
    """

    example: Int[Array, "... b"]
    values: Mapping[str, Array]


def recall(memory: Memory, example: Int[Array, " b"]) -> dict[str, Array]:
    """The rows of a batch, ``[b, ...]`` by name; NaN of an example that there is not."""
    return {
        name: rows.at[example].get(mode="fill", fill_value=jnp.nan) for name, rows in memory.items()
    }


def remember(memory: Memory, remembered: Remembered) -> Memory:
    """The memory with new rows; of an example that a batch has twice the last one counts.

    Raises:
      ValueError: if other things are remembered than there are.
    """
    if set(remembered.values) != set(memory):
        raise ValueError(
            f"a method's memory is of {', '.join(memory)}, and what it leaves in its metrics of "
            f"{', '.join(remembered.values)}"
        )
    example = remembered.example.reshape(-1)
    place = jnp.arange(len(example), dtype=jnp.int32)

    def put(kept: Array, new: Array) -> Array:
        last = jnp.zeros(len(kept), jnp.int32).at[example].max(place)
        nowhere = len(kept)
        row = jnp.where(last[example] == place, example, nowhere)
        return kept.at[row].set(new.reshape(len(example), *kept.shape[1:]), mode="drop")

    return jax.tree.map(put, dict(memory), dict(remembered.values))
