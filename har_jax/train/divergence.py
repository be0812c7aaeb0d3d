"""Steps whose numbers are not finite: found where they happen, and told or skipped."""

from collections.abc import Mapping
from typing import Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from har_jax.methods.shared.method import Metrics
from har_jax.methods.shared.peak import split

OnNonfinite = Literal["stop", "skip"]
"""What to do after a step that is not finite."""

Tree = TypeVar("Tree")

_STATE = "the updated parameters"
_NAMES = {"norm": "R"}


def finiteness(metrics: Metrics, state: PyTree) -> dict[str, Bool[Array, ""]]:
    """Whether each metric of a step is finite, and all numbers of the state after it.

    A gradient that is not finite leaves a state that is not.
    """
    numbers = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    sums, _ = split(metrics)
    finite = {_NAMES.get(name, name): jnp.isfinite(value.total) for name, value in sums.items()}
    return {**finite, _STATE: jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in numbers]))}


def choose(condition: Bool[Array, ""], yes: Tree, no: Tree) -> Tree:
    """One of two trees of arrays, as ``jnp.where`` has it."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def first_failure(finite: Mapping[str, Bool[np.ndarray, " S"]]) -> tuple[int, list[str]] | None:
    """The first of S steps that is not finite, from 0, and what of it is not; None if all are."""
    flags = np.stack(list(finite.values()))
    if flags.all():
        return None
    step = int(np.argmin(flags.all(axis=0)))
    return step, [name for name, good in zip(finite, flags[:, step], strict=True) if not good]


def diverged(what: str, *remedies: str) -> FloatingPointError:
    """The error for a training run whose numbers are not finite, with remedies."""
    lower = "lower config.optimizer.learning_rate, or the method's own strength or rate"
    return FloatingPointError(f"{what}: {', '.join([lower, *remedies])}")
