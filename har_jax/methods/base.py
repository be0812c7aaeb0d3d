"""What a training method is: three pure functions, as an Optax optimizer is two."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import flax.struct
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from har_jax.objective import WeightedSum, weighted_sum

Batch = Mapping[str, Array]
"""``inputs [B, ...]``, ``labels [B]``, and whatever else a method reads."""

Metrics = dict[str, WeightedSum]


class Method(NamedTuple):
    """A training method.

    Attributes:
      init: ``(key, batch) -> state``, a pytree with a ``step`` and ``variables``.
      step: ``(state, batch, key) -> (state, metrics)``, one update. Metrics are
        :class:`har_jax.WeightedSum`, so that they add up over steps and devices.
      predict: ``(variables, inputs) -> logits [B, K]``, in evaluation mode.
    """

    init: Callable[[PRNGKeyArray, Batch], Any]
    step: Callable[[Any, Batch, PRNGKeyArray], tuple[Any, Metrics]]
    predict: Callable[[Mapping[str, Any], Array], Array]


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


class Augment(Protocol):
    """Changes inputs at random, on the device, inside the step."""

    def __call__(self, key: PRNGKeyArray, inputs: Array, /) -> Array: ...


class Preprocess(Protocol):
    """Makes inputs ready for the network, after augmentation and in prediction alike."""

    def __call__(self, inputs: Array, /) -> Array: ...


class LossWeights(Protocol):
    """Per-example weights of the loss, from the labels and the step."""

    def __call__(self, labels: Int[Array, " B"], step: Int[Array, ""]) -> Float[Array, " B"]: ...


class Objective(Protocol):
    """What a single-network method minimizes.

    Args:
      variables: The network's.
      batch: With augmented and preprocessed inputs.
      weights: ``[B]``, the weights of the losses.
      apply_options: To be passed to ``model.apply``.

    Returns:
      The objective as a sum and its normalizer; the mutated collections; metrics.
    """

    def __call__(
        self,
        variables: Mapping[str, Any],
        batch: Batch,
        weights: Float[Array, " B"],
        apply_options: Mapping[str, Any],
    ) -> tuple[WeightedSum, tuple[Mapping[str, Any], Metrics]]: ...


def single_network(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    objective: Objective,
    *,
    augment: Augment | None = None,
    preprocess: Preprocess | None = None,
    loss_weights: LossWeights | None = None,
) -> Method:
    """Makes a method that minimizes an objective of one network by gradient steps."""
    ready = (lambda inputs: inputs) if preprocess is None else preprocess

    def init(key: PRNGKeyArray, batch: Batch) -> TrainState:
        variables = dict(model.init(key, ready(batch["inputs"]), train=False))
        params = variables.pop("params")
        return TrainState(
            step=jnp.zeros((), jnp.int32),
            params=params,
            collections=variables,
            opt_state=optimizer.init(params),
        )

    def step(state: TrainState, batch: Batch, key: PRNGKeyArray) -> tuple[TrainState, Metrics]:
        augment_key, dropout_key = jax.random.split(key)
        inputs = batch["inputs"] if augment is None else augment(augment_key, batch["inputs"])
        batch = {**batch, "inputs": ready(inputs)}
        if loss_weights is None:
            weights = jnp.ones(batch["labels"].shape)
        else:
            weights = loss_weights(batch["labels"], state.step)
        options = dict(train=True, mutable=list(state.collections), rngs={"dropout": dropout_key})

        def mean(params):
            variables = {"params": params, **state.collections}
            total, aux = objective(variables, batch, weights, options)
            return total.mean(), aux

        gradients, (collections, metrics) = jax.grad(mean, has_aux=True)(state.params)
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        return TrainState(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            collections={**state.collections, **collections},
            opt_state=opt_state,
        ), metrics

    def predict(variables: Mapping[str, Any], inputs: Array) -> Array:
        logits: Array = model.apply(variables, ready(inputs), train=False)  # type: ignore[assignment]
        return logits

    return Method(init, step, predict)


def accuracy(logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> WeightedSum:
    """The number of labels that the largest logit hits, of how many."""
    return weighted_sum((jnp.argmax(logits, axis=-1) == labels).astype(jnp.float32))
