"""Two networks, each of which chooses the examples that the other one learns from."""

from collections.abc import Callable
from typing import Any, Protocol, Unpack

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from har_jax.losses import cross_entropy
from har_jax.methods.erm import erm
from har_jax.methods.shared.axis import place_of, ranks, summed
from har_jax.methods.shared.method import Batch, Method, Step, TrainState
from har_jax.methods.shared.single_network import StepOptions, accuracy, single_network
from har_jax.objective import WeightedSum, weighted_sum


class Rows(Protocol):
    """The rows that networks choose from, those of the batch ahead of all others.

    Returns:
      Inputs ``[R, ...]``, labels ``[R]`` and weights of losses ``[R]``, with R at least B.
    """

    def __call__(
        self, batch: Batch, weights: Float[Array, " B"], /
    ) -> tuple[Array, Int[Array, " R"], Float[Array, " R"]]: ...


def rows_of_batch(
    batch: Batch, weights: Float[Array, " B"]
) -> tuple[Array, Int[Array, " B"], Float[Array, " B"]]:
    """Those of the batch alone."""
    return batch["inputs"], batch["labels"], weights


def taught_by_each_other(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    keeps: Callable[[Int[Array, ""], int], Int[Array, ""]],
    *,
    rows: Rows = rows_of_batch,
    **options: Unpack[StepOptions],
) -> Method:
    """Each of two networks is updated on those rows whose losses the other finds smallest.

    Both see the same rows with the same augmentation, and the losses are those that are
    differentiated. A network's loss is the weighted mean over the rows that it is given to learn
    from.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      keeps: ``(number of updates made, B) -> number of rows`` that each network chooses of a batch
        of B examples over all devices; 1 at least.
      rows: What they are chosen from.
      **options: Those of :class:`har_jax.methods.StepOptions`, without microbatches; ``start`` has
        ``first`` and ``second`` in each of its collections.

    Returns:
      A :class:`har_jax.methods.Method`. Metrics and predictions are the first network's, which
      begins as that of other methods does: ``loss`` and ``accuracy`` of the batch's own rows,
      ``kept`` of all.
    """
    axis = options.get("axis")
    pair = _Pair(*(model.clone(_deep_clone=True) for _ in range(2)))  # submodules in fields as well

    def objective(variables, batch, weights, apply_options):
        inputs, labels, weights = rows(batch, weights)
        logits, collections = pair.apply(variables, inputs, **apply_options)
        losses = [cross_entropy(each, labels) for each in logits]
        kept = [smallest(loss, batch["kept"][0], axis) for loss in losses]
        _, places = place_of(axis)
        taught = [
            weighted_sum(loss, weights * chosen)
            for loss, chosen in zip(losses, reversed(kept), strict=True)
        ]
        # Each network has a normalizer of its own, over all places.
        means = [WeightedSum(each.total, summed(each.weight, axis)).mean() for each in taught]
        own = slice(len(batch["labels"]))
        metrics = {
            "loss": weighted_sum(losses[0][own]),
            "accuracy": accuracy(logits[0][own], labels[own]),
            "kept": weighted_sum(kept[0].astype(jnp.float32)),
        }
        return WeightedSum(means[0] + means[1], jnp.ones(()) / places), (collections, metrics)

    def scheduled(step: Step) -> Step:
        def taught(state, batch, key):
            size = batch["labels"].shape
            _, places = place_of(axis)
            kept = keeps(state.step, size[0] * places)
            return step(state, {**batch, "kept": jnp.full(size, kept)}, key)

        return taught

    def both(**options: Unpack[StepOptions]) -> Method:
        return single_network(pair, optimizer, objective, **options)

    one = erm(model, optimizer, **options)

    def init(key: PRNGKeyArray, batch: Batch) -> _PairState:
        start = options.get("start")
        if start is None:
            keys = key, jax.random.fold_in(key, 1)
            first, second = (one.init(each, batch).variables for each in keys)
            start = {name: {"first": first[name], "second": second[name]} for name in first}
        begun: StepOptions = {**options, "start": start}
        return _PairState(**vars(both(**begun).init(key, batch)))

    return both(**options).with_steps(scheduled)._replace(init=init, predict=one.predict)


def smallest(
    losses: Float[Array, " b"], count: Int[Array, ""] | int, axis: str | None = None
) -> Bool[Array, " b"]:
    """Which losses are among so many that are smallest, at least one.

    Args:
      losses: ``[b]``; of equal ones the first count as smaller.
      count: How many, over the whole axis.
      axis: The name of the mapped axis that the losses are split over; None if they are not.
    """
    return ranks(jax.lax.stop_gradient(losses), axis) < jnp.maximum(count, 1)


class _Pair(nn.Module):
    """Two networks of one kind: their logits."""

    first: nn.Module
    second: nn.Module

    def __call__(self, inputs: Array, *, train: bool) -> tuple[Array, Array]:
        return self.first(inputs, train=train), self.second(inputs, train=train)


class _PairState(TrainState):
    """The state of both networks, whose variables are those of the first."""

    @property
    def variables(self) -> dict[str, Any]:
        every = {"params": self.params, **self.collections}
        return {name: of["first"] for name, of in every.items() if "first" in of}
