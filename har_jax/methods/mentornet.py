"""MentorNet: examples are weighed by their losses, by a rule or by a network that learns one."""

from collections.abc import Callable
from typing import Annotated, Literal, Unpack

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from har_jax.losses import cross_entropy
from har_jax.methods.shared.axis import keys_of_rows, summed, whole_batch
from har_jax.methods.shared.curricula import (
    CURRICULA,
    draw_chances,
    moving_average,
    nearest_percentile,
    percent_of,
    rates_by_percent,
    survivors,
)
from har_jax.methods.shared.mentor import (
    Lesson,
    mentor_weights,
    mislabel,
    new_mentor,
    study,
)
from har_jax.methods.shared.meta import need_meta
from har_jax.methods.shared.method import Method, Step
from har_jax.methods.shared.single_network import (
    StepOptions,
    accuracy,
    own_collection,
    single_network,
)
from har_jax.objective import WeightedSum, weighted_sum
from har_jax.options import Option

OWN = "mentor"
"""The collection of what the method has beside the network."""

_DATA_DRIVEN = "data_driven"
_CHANCES, _META = 2, 3  # what a step's key is folded with, beside the two that it is split into


def mentornet(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    total_steps: int,
    weight_decay: float,
    curriculum: Annotated[
        Literal["predefined", "self_paced", "linear", "hard_examples", "focal", "data_driven"],
        Option("how losses become weights"),
    ] = "predefined",
    percentile: Annotated[
        float, Option("of a batch's losses, the level that each is compared with", ge=0, le=1)
    ] = 0.75,
    decay: Annotated[
        float, Option("of the moving average of that level, what stays at a step", ge=0, lt=1)
    ] = 0.5,
    burn_in: Annotated[
        int,
        Option("percent of training, in all but the last of which weights are 1", ge=0, le=99),
    ] = 18,
    dropout: Annotated[
        tuple[tuple[float, int], ...],
        Option(
            "shares of a batch that get weight 0 at random, each with its percents of training",
            must="hold pairs of a share and of percents, which are 100 in all",
        ),
    ] = ((0.5, 17), (0.05, 83)),
    wrong: Annotated[
        float,
        Option("the share of known labels that data_driven makes wrong to learn from", gt=0, lt=1),
    ] = 0.5,
    decayed: Callable[[PyTree], PyTree] | None = None,
    **options: Unpack[StepOptions],
) -> Method:
    r"""Minimizes :math:`\sum_i v_i w_i \ell_i / \sum_i w_i`, with weights v by the losses.

    A baseline of the paper's tables: Jiang et al. 2018 (arXiv 1712.05055), as their code has it. An
    example's weight in [0, 1] is a function of its loss, of the difference of that from a moving
    average of a percentile of the batches' losses, this batch's included, and of how much of
    training is over. It has no gradient. The mean is over all examples, and the decay of the
    network's parameters is multiplied by :math:`f = \sum_i v_i / B`, which is the metric ``kept``:
    the fewer examples are taken, the smaller both are.

    With ``data_driven`` the function is a network, :class:`har_jax.methods.shared.mentor.Mentor`.
    It learns beside the first one, a step at each step, to tell right labels from wrong ones by
    their losses. It is shown examples whose labels are known to be right, some of which are
    replaced by wrong ones (:func:`har_jax.methods.shared.mentor.mislabel`), and the losses that the
    first network has there in training mode. The authors' learns before, from the losses of a
    network that was trained on noisy examples whose right labels are known. ``told_apart`` is the
    share of the examples shown that it judges rightly.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation, which adds the decay to gradients.
      total_steps: How many training has.
      weight_decay: The optimizer's.
      curriculum: One of :data:`har_jax.methods.shared.curricula.CURRICULA`, or ``data_driven``.
      percentile: See :func:`har_jax.methods.shared.curricula.nearest_percentile`.
      decay: See :func:`har_jax.methods.shared.curricula.moving_average`.
      burn_in: All weights are 1 while less than ``burn_in - 1`` percent of training is over. A
        data-driven network is told of no later time than ``burn_in``.
      dropout: See :func:`har_jax.methods.shared.curricula.rates_by_percent`. Other weights are not
        made larger for it.
      wrong: See :func:`har_jax.methods.shared.mentor.mislabel`.
      decayed: ``params -> whether the optimizer's decay is of each``; None if it is of all.
      **options: Those of :class:`har_jax.methods.StepOptions`.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``, and with
      ``data_driven`` ``meta_inputs`` and ``meta_labels`` as well.

    Raises:
      ValueError: of several microbatches, since a percentile is a batch's; of a curriculum that
        there is not; of a plan that is none; and, of a batch without ``meta_labels``, by the step
        of ``data_driven``.
    """
    axis = whole_batch("mentornet", options)
    learned = curriculum == _DATA_DRIVEN
    if not learned and curriculum not in CURRICULA:
        raise ValueError(
            f"mentornet: curriculum={curriculum!r} is unknown: take one of "
            f"{', '.join([*CURRICULA, _DATA_DRIVEN])}"
        )
    rates = rates_by_percent(dropout)

    def beside(key: PRNGKeyArray) -> dict[str, PyTree]:
        own: dict[str, PyTree] = {"step": jnp.zeros((), jnp.int32), "average": jnp.zeros(())}
        return {OWN: own | {"mentor": new_mentor(jax.random.fold_in(key, 1))} if learned else own}

    def drawn(step: Step) -> Step:
        """A step whose batches bring what is drawn for their rows, on whatever devices."""

        def stepped(state, batch, key):
            chances = draw_chances(jax.random.fold_in(key, _CHANCES), len(batch["labels"]), axis)
            batch = {**batch, "chance": chances}
            if learned:
                need_meta("mentornet with curriculum='data_driven'", batch)
                rows = len(batch["meta_labels"])
                batch["meta_key"] = keys_of_rows(jax.random.fold_in(key, _META), rows, axis)
            return step(state, batch, key)

        return stepped

    def told(percent):  # to the mentor: only times from when its weights count to burn_in
        return jnp.clip(percent, burn_in - 1, burn_in)

    def weigh(own, loss, difference, percent):
        if learned:
            weights = mentor_weights(own["mentor"].params, loss, difference, told(percent))
        else:
            weights = CURRICULA[curriculum](loss, difference, percent)
        return jnp.where(percent < burn_in - 1, 1, weights)

    def study_meta(mentor, variables, batch, apply_options, average, percent):
        variables = jax.lax.stop_gradient(variables)
        logits, _ = model.apply(variables, batch["meta_inputs"], **apply_options)
        labels, right = mislabel(batch["meta_key"], logits, batch["meta_labels"], wrong)
        loss = cross_entropy(logits, labels)
        lesson = Lesson(
            loss, loss - average.astype(loss.dtype), told(percent), right.astype(loss.dtype)
        )
        mentor, said = study(mentor, lesson, axis=axis)
        return mentor, weighted_sum(((said > 0) == right).astype(jnp.float32))

    def objective(variables, batch, weights, apply_options):
        own, variables, apply_options = own_collection(OWN, variables, apply_options)
        logits, collections = model.apply(variables, batch["inputs"], **apply_options)
        loss = cross_entropy(logits, batch["labels"])
        known = jax.lax.stop_gradient(loss)
        level = nearest_percentile(known, percentile, axis)
        average = moving_average(own["average"], level, decay)
        percent = percent_of(own["step"], total_steps)
        mine = weigh(own, known, known - average.astype(known.dtype), percent)
        mine = jnp.where(survivors(batch["chance"], rates, percent, axis), mine, 0)
        kept = weighted_sum(mine)
        metrics = {
            "loss": weighted_sum(loss),
            "accuracy": accuracy(logits, batch["labels"]),
            "kept": kept,
        }
        new = {**own, "step": own["step"] + 1, "average": average}
        if learned:
            seen = variables, batch, apply_options, average, percent
            new["mentor"], metrics["told_apart"] = study_meta(own["mentor"], *seen)
        value = weighted_sum(mine * loss, weights)
        if weight_decay:
            factor = WeightedSum(*summed(kept, axis)).mean()
            params = variables["params"]
            if decayed is not None:
                params = jax.tree.map(lambda p, d: p if d else None, params, decayed(params))
            value = _with_decay(value, (factor - 1) * weight_decay, params)
        return value, ({**collections, OWN: new}, metrics)

    method = single_network(model, optimizer, objective, beside=beside, **options)
    return method.with_steps(drawn)


def _with_decay(value: WeightedSum, decay: Float[Array, ""], params: PyTree) -> WeightedSum:
    """A sum to whose mean a decay is added, on top of the one that the optimizer adds."""
    penalty = optax.tree.norm(params, squared=True).astype(decay.dtype) / 2
    return WeightedSum(value.total + value.weight * decay * penalty, value.weight)
