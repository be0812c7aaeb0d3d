"""What most methods are: one network, whose objective is minimized by gradient steps."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypedDict, Unpack

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from har_jax.methods.shared.axis import (
    combine,
    fold_in_place,
    in_slot,
    keys_of_rows,
    own_copy,
    place_of,
    refuse_split,
)
from har_jax.methods.shared.memory import Memory, recall, remember
from har_jax.methods.shared.method import (
    Batch,
    Method,
    Metrics,
    Phases,
    RememberingState,
    Step,
    TrainState,
)
from har_jax.methods.shared.microbatches import accumulate
from har_jax.methods.shared.peak import with_peaks
from har_jax.objective import WeightedSum, weighted_sum


class Augment(Protocol):
    """Changes one input at random, on the device, inside the step, which maps it over the batch.

    Every example has a key of its own, so that what becomes of it does not depend on how many
    devices the batch is split over.
    """

    def __call__(self, key: PRNGKeyArray, example: Array, /) -> Array: ...


class Preprocess(Protocol):
    """Makes inputs ready for the network, after augmentation and in prediction alike."""

    def __call__(self, inputs: Array, /) -> Array: ...


class LossWeights(Protocol):
    """Per-example weights of the loss, from the labels and the step."""

    def __call__(self, labels: Int[Array, " B"], step: Int[Array, ""]) -> Float[Array, " B"]: ...


class StepOptions(TypedDict, total=False):
    """What every method that trains one network can do beside its objective.

    Attributes:
      augment: Applied to the inputs of every batch.
      preprocess: Applied to inputs after that, and in prediction.
      loss_weights: Weights of the losses; ones where not given.
      microbatches: Passes in which a step goes through its batch, 1 by default: so many times
        fewer examples are in memory at once. The step is the same, but for layers that make
        examples depend on each other: BatchNorm takes the statistics of each part, and updates
        its running ones with each. Randomness inside of the network is drawn for each part.
      axis: The name of the axis of ``jax.shard_map`` or ``jax.pmap`` that batches are split over;
        None if they are not. Gradients, metrics and running statistics are then combined in one
        all-reduce a step. As with microbatches, BatchNorm takes the statistics of each part.
      start: The network's variables to begin with, such as those of another method's state; random
        ones where they are not given.
    """

    augment: Augment | None
    preprocess: Preprocess | None
    loss_weights: LossWeights | None
    microbatches: int
    axis: str | None
    start: Mapping[str, Any] | None


class Objective(Protocol):
    """What a single-network method minimizes.

    Args:
      variables: The network's, with the collections that the method has beside it.
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
    between: Objective | None = None,
    every: int = 1,
    memory: Callable[[jax.ShapeDtypeStruct], Memory] | None = None,
    beside: Callable[[PRNGKeyArray], Mapping[str, PyTree]] | None = None,
    **options: Unpack[StepOptions],
) -> Method:
    """Makes a method that minimizes an objective of one network by gradient steps.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      objective: What is minimized.
      between: What is minimized at other steps than each ``every``-th, with metrics of the same
        names.
      every: 1 is without ``between``; the objective's turn comes first.
      memory: ``logits -> memory`` before the first step, ``[n, ...]`` by name, of what the method
        keeps of each training example. The objective finds a batch's rows there by name, and
        leaves new ones in its metrics, as a ``remembered``
        :class:`har_jax.methods.shared.memory.Remembered`. Batches have an ``index`` then.
      beside: ``key -> collections`` of the method's own, such as a network that is learned beside
        the first. The objective finds them among the variables and leaves them, as they are to be
        from then on and the same on every device, among the mutated.
      **options: Those of :class:`StepOptions`.

    Raises:
      TypeError: if there is an option that is none of :class:`StepOptions`.
    """
    if unknown := set(options) - set(StepOptions.__annotations__):
        raise TypeError(
            f"unknown options {', '.join(sorted(unknown))}: there are "
            f"{', '.join(StepOptions.__annotations__)}"
        )
    augment = options.get("augment")
    ready = options.get("preprocess") or (lambda inputs: inputs)
    loss_weights = options.get("loss_weights") or (lambda labels, step: jnp.ones(labels.shape))
    microbatches, axis = options.get("microbatches") or 1, options.get("axis")
    objectives = (objective,) if between is None or every == 1 else (objective, between)

    def init(key: PRNGKeyArray, batch: Batch) -> TrainState:
        start = options.get("start")
        mine = {} if beside is None else beside(key)
        if start is None:
            start = model.init(key, ready(batch["inputs"]), train=False)
            _refuse_clash(start, mine)
        collections = jax.tree.map(jnp.array, dict(start))  # whoever donates the state keeps it
        params = collections.pop("params")
        collections |= mine
        begun = dict(
            step=jnp.zeros((), jnp.int32),
            params=params,
            collections=collections,
            opt_state=optimizer.init(params),
        )
        if memory is None:
            return TrainState(**begun)
        logits = jax.eval_shape(predict, {"params": params, **collections}, batch["inputs"])
        return RememberingState(**begun, memory=memory(logits))

    def prepared(batch: Batch, key: PRNGKeyArray) -> dict[str, Array]:
        """Inputs as the network takes them, of the batch and of those that come beside it."""
        found = {}
        others = sorted(name for name in batch if name.endswith("_inputs"))
        for index, name in enumerate(["inputs", *others]):
            inputs, own_key = batch[name], jax.random.fold_in(key, index) if index else key
            if augment is not None:
                inputs = jax.vmap(augment)(keys_of_rows(own_key, len(inputs), axis), inputs)
            found[name] = ready(inputs)
        return found

    def update(
        state: Any,
        batch: Batch,
        key: PRNGKeyArray,
        choose: Callable[[Array, Sequence[Callable[[], Any]]], Any],
    ) -> tuple[TrainState, Metrics]:
        if axis is None:
            refuse_split(batch, state.params)
        augment_key, dropout_key = jax.random.split(key)
        dropout_key = fold_in_place(dropout_key, axis)
        batch = {**batch, **prepared(batch, augment_key)}
        if memory is not None:
            batch |= recall(state.memory, batch["index"])
        weights = loss_weights(batch["labels"], state.step)
        own_params, own_collections = own_copy((state.params, dict(state.collections)), axis)

        def gradient_of_total(minimized, collections, rows, index):
            batch, weights = rows
            rngs = {"dropout": jax.random.fold_in(dropout_key, index)}
            apply_options = dict(train=True, mutable=list(collections), rngs=rngs)

            def total(params):
                variables = {"params": params, **collections}
                value, aux = minimized(variables, batch, weights, apply_options)
                return value.total, (value.weight, *aux)

            gradient, (weight, mutated, metrics) = jax.grad(total, has_aux=True)(own_params)
            place, places = place_of(axis)
            metrics = in_slot(metrics, place * microbatches + index, places * microbatches)
            return {**collections, **mutated}, (gradient, weight, metrics)

        def gone_through(minimized: Objective):
            of_part = functools.partial(gradient_of_total, minimized)
            rows = (batch, weights)
            return lambda: accumulate(of_part, own_collections, rows, microbatches)

        # Between gradients: a choice inside of what is differentiated would keep both in memory.
        own_collections, sums = choose(state.step, [gone_through(each) for each in objectives])
        (gradient, weight, metrics), collections = combine(sums, own_collections, axis)
        gradients = jax.tree.map(lambda total: WeightedSum(total, weight).mean(), gradient)
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        changes = dict(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            collections=collections,
            opt_state=opt_state,
        )
        if memory is not None:
            changes["memory"] = remember(state.memory, metrics.pop("remembered"))
        return state.replace(**changes), with_peaks(metrics)

    def step_of(index: int) -> Step:
        return lambda state, batch, key: update(state, batch, key, lambda _, ways: ways[index]())

    def step_in_turn(state: TrainState, batch: Batch, key: PRNGKeyArray):
        turn = lambda step, ways: jax.lax.cond(step % every == 0, *ways)
        return update(state, batch, key, turn)

    def predict(variables: Mapping[str, Any], inputs: Array) -> Array:
        logits: Array = model.apply(variables, ready(inputs), train=False)  # type: ignore[assignment]
        return logits

    if len(objectives) == 1:
        return Method(init, step_of(0), predict)
    phases = Phases((step_of(0), step_of(1)), lambda step: int(step % every != 0))
    return Method(init, step_in_turn, predict, phases)


def _refuse_clash(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    if both := sorted(set(theirs) & set(mine)):
        raise ValueError(
            f"the network has a collection called {', '.join(both)}, as has the method: call it "
            "otherwise"
        )


def own_collection(
    name: str, variables: Mapping[str, Any], apply_options: Mapping[str, Any]
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """A collection that a method has beside its network, and an objective's arguments without it.

    Args:
      name: Of the collection.
      variables: As an :class:`Objective` is given them.
      apply_options: As it is given them.

    Returns:
      The collection; the network's variables; options for ``model.apply``, which changes these.
    """
    theirs = {key: of for key, of in variables.items() if key != name}
    mutable = [key for key in apply_options["mutable"] if key != name]
    return variables[name], theirs, {**apply_options, "mutable": mutable}


def accuracy(logits: Float[Array, "B K"], labels: Int[Array, " B"]) -> WeightedSum:
    """The number of labels that the largest logit hits, of how many."""
    return weighted_sum((jnp.argmax(logits, axis=-1) == labels).astype(jnp.float32))
