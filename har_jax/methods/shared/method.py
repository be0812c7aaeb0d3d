"""What a training method is: three pure functions, as an Optax optimizer is two."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import flax.struct
import optax
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from har_jax.methods.shared.memory import Memory, Remembered
from har_jax.methods.shared.peak import Peak, Rows
from har_jax.objective import WeightedSum

Batch = Mapping[str, Array]
"""``inputs [B, ...]``, ``labels [B]``, and whatever else a method reads, of B rows too."""

Metrics = dict[str, WeightedSum | Rows | Peak | Remembered]

Step = Callable[[Any, Batch, PRNGKeyArray], tuple[Any, Metrics]]
"""``(state, batch, key) -> (state, metrics)``, one update."""


class Phases(NamedTuple):
    """Steps of different cost, of which one is due at a time.

    Who makes each step a dispatch of its own can pick the one that is due, so that each is compiled
    by itself: XLA:CPU runs some convolutions many times as slowly inside of a ``lax.cond``.

    Attributes:
      steps: Each as ``Method.step``.
      due: ``number of updates made -> index``.
    """

    steps: tuple[Step, ...]
    due: Callable[[int], int]


class Method(NamedTuple):
    """A training method.

    Attributes:
      init: ``(key, batch) -> state``, a pytree with a ``step`` and ``variables``.
      step: ``(state, batch, key) -> (state, metrics)``, one update. Metrics are
        :class:`har_jax.WeightedSum`, so that they add up over steps and devices, but for a
        :class:`har_jax.methods.shared.peak.Peak`, of which the highest counts.
      predict: ``(variables, inputs) -> logits [B, K]``, in evaluation mode.
      phases: Where ``step`` is one of several by the number of updates made, those; else None.
    """

    init: Callable[[PRNGKeyArray, Batch], Any]
    step: Step
    predict: Callable[[Mapping[str, Any], Array], Array]
    phases: Phases | None = None

    def with_steps(self, change: Callable[[Step], Step]) -> Self:
        """The method with other steps, each made of the one there was."""
        phases = self.phases
        if phases is not None:
            phases = phases._replace(steps=tuple(map(change, phases.steps)))
        return self._replace(step=change(self.step), phases=phases)


class TrainState(flax.struct.PyTreeNode):
    """The state of a method that trains one network.

    Attributes:
      step: The number of updates made.
      params: The network's parameters.
      collections: Its other variables, such as running statistics.
      opt_state: The optimizer's state.
    """

    step: Int[Array, ""]
    params: PyTree
    collections: Mapping[str, PyTree]
    opt_state: optax.OptState

    @property
    def variables(self) -> dict[str, Any]:
        return {"params": self.params, **self.collections}


class RememberingState(TrainState):
    """The state of a method that keeps something of each training example.

    Attributes:
      memory: What it keeps, ``[n, ...]`` by name, on every device whole.
    """

    memory: Memory
