"""Co-teaching: two networks, each of which chooses the examples that the other one learns from."""

from typing import Annotated, Any, Unpack

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from har_jax.losses import cross_entropy
from har_jax.methods.erm import erm
from har_jax.methods.shared.axis import place_of, ranks, summed, whole_batch
from har_jax.methods.shared.method import Batch, Method, Step, TrainState
from har_jax.methods.shared.single_network import StepOptions, accuracy, single_network
from har_jax.objective import WeightedSum, weighted_sum
from har_jax.options import Option


def co_teaching(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    steps_per_epoch: float,
    noise_rate: Annotated[
        float | None,
        Option("the share of labels that are wrong; None: estimated out of sample", ge=0, lt=1),
    ] = None,
    gradual_epochs: Annotated[
        int, Option("over which the share that is left out grows to that", ge=1, le=10**6)
    ] = 10,
    exponent: Annotated[
        float, Option("of the rate while that grows, as the authors' code has it", gt=0, le=100)
    ] = 1.0,
    **options: Unpack[StepOptions],
) -> Method:
    """Each of two networks is updated on those examples whose losses the other finds smallest.

    A baseline of the paper's tables: Han et al. 2018 (arXiv 1804.06872). Both see the same batch
    with the same augmentation, and the losses are those that are differentiated, as in the
    authors' code. A loss is the mean of the examples that are kept: their code divides by their
    number once more, which for other optimizers than Adam is another learning rate.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      steps_per_epoch: How many steps see every example once.
      noise_rate: Of the training set.
      gradual_epochs: See :func:`forget_rate`.
      exponent: See :func:`forget_rate`.
      **options: Those of :class:`har_jax.methods.StepOptions`; ``start`` has ``first`` and
        ``second`` in each of its collections.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``. Metrics and
      predictions are the first network's, which begins as that of other methods does.

    Raises:
      ValueError: without a noise rate, of options outside of their bounds, or of several
        microbatches: the smallest losses are a batch's.
    """
    axis = whole_batch("co_teaching", options)
    if noise_rate is None:
        raise ValueError("co_teaching: noise_rate is needed, the share of labels that are wrong")
    if not (0 <= noise_rate < 1 and gradual_epochs >= 1):
        raise ValueError(
            f"co_teaching: noise_rate={noise_rate} must be in [0, 1), and gradual_epochs="
            f"{gradual_epochs} at least 1"
        )
    pair = _Pair(*(model.clone(_deep_clone=True) for _ in range(2)))  # submodules in fields as well

    def objective(variables, batch, weights, apply_options):
        labels = batch["labels"]
        logits, collections = pair.apply(variables, batch["inputs"], **apply_options)
        losses = [cross_entropy(each, labels) for each in logits]
        kept = [smallest(loss, batch["kept"][0], axis) for loss in losses]
        _, places = place_of(axis)
        taught = [
            weighted_sum(loss, weights * chosen)
            for loss, chosen in zip(losses, reversed(kept), strict=True)
        ]
        # Each network has a normalizer of its own, over all places.
        means = [WeightedSum(each.total, summed(each.weight, axis)).mean() for each in taught]
        metrics = {
            "loss": weighted_sum(losses[0]),
            "accuracy": accuracy(logits[0], labels),
            "kept": weighted_sum(kept[0].astype(jnp.float32)),
        }
        return WeightedSum(means[0] + means[1], jnp.ones(()) / places), (collections, metrics)

    def scheduled(step: Step) -> Step:
        def taught(state, batch, key):
            epoch = 1.0 + jnp.floor(state.step.astype(jnp.float32) / steps_per_epoch)
            kept = 1 - forget_rate(epoch, noise_rate, gradual_epochs, exponent)
            return step(state, {**batch, "kept": jnp.full(batch["labels"].shape, kept)}, key)

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


def forget_rate(
    epoch: Float[Array, ""] | float, noise_rate: float, gradual_epochs: int, exponent: float = 1.0
) -> Float[Array, ""]:
    r"""The share of a batch that is left out: :math:`\tau^c e / (T_k - 1)` before epoch
    :math:`T_k`, then :math:`\tau`.

    As Han et al.'s code has it, whose first epoch is 1. Their paper has
    :math:`\tau \min(e^c / T_k, 1)`, which is nearly the same at c = 1.

    Args:
      epoch: e, from 0 on.
      noise_rate: :math:`\tau`.
      gradual_epochs: :math:`T_k`.
      exponent: c.

    Returns:
      The share, in ``[0, 1)``.
    """
    growing = noise_rate**exponent * epoch / max(gradual_epochs - 1, 1)
    return jnp.where(jnp.asarray(epoch) < gradual_epochs, growing, noise_rate)


def smallest(
    losses: Float[Array, " b"], share: Float[Array, ""] | float, axis: str | None = None
) -> Bool[Array, " b"]:
    """Which losses are among that share of the batch that is smallest, rounded down, at least one.

    Args:
      losses: ``[b]``; of equal ones the first count as smaller.
      share: In ``[0, 1]``.
      axis: The name of the mapped axis that the batch is split over; None if it is not.
    """
    _, places = place_of(axis)
    kept = jnp.floor(share * float(len(losses) * places) + _ROUNDING).astype(jnp.int32)
    return ranks(jax.lax.stop_gradient(losses), axis) < jnp.maximum(kept, 1)


_ROUNDING = 1e-4  # of a share in float32, times a batch


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
