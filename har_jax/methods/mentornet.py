"""MentorNet: examples are weighed by their losses, by a rule or by a network that learns one."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Unpack

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, PRNGKeyArray, PyTree

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
from har_jax.methods.shared.method import Batch, Method, Step
from har_jax.methods.shared.single_network import StepOptions, accuracy, single_network
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
        float, Option("the share of a batch's losses that are below what losses go by", ge=0, le=1)
    ] = 0.75,
    decay: Annotated[float, Option("of that loss's average, what stays at a step", ge=0, lt=1)] = (
        0.5
    ),
    burn_in: Annotated[
        int, Option("before the last of which all weights are 1", unit="percent", ge=0, le=99)
    ] = 18,
    dropout: Annotated[
        tuple[tuple[float, int], ...],
        Option(
            "shares of a batch that get no weight, drawn at random, and for how many percent each",
            must="hold pairs of a share and of percents of training, 100 in all",
        ),
    ] = ((0.5, 17), (0.05, 83)),
    wrong: Annotated[
        float, Option("the share of right labels that are made wrong, to learn from", gt=0, lt=1)
    ] = 0.5,
    **options: Unpack[StepOptions],
) -> Method:
    r"""Minimizes :math:`\sum_i v_i w_i \ell_i / \sum_i w_i`, with weights v by the losses.

    A baseline of the paper's tables: Jiang et al. 2018 (arXiv 1712.05055), as their code has it. A
    weight in [0, 1] is a function of a loss, of its difference from a moving average of the
    batches' percentile, this one's included, and of how much of training is over. It has no
    gradient. The mean is one over all examples, and the decay of the network's parameters is
    multiplied by :math:`f = \sum_i v_i / B`, the metric ``kept``: the fewer examples are taken, the
    less there is of both.

    With ``data_driven`` the function is a network, :class:`har_jax.methods.shared.mentor.Mentor`,
    that learns beside the first, a step at each step, which labels are right. It is shown others,
    which are known to be, of which a share is replaced by wrong ones as :func:`mislabel` has it,
    and their losses in training mode. The authors' learns before, from the losses of a network
    trained on noisy examples whose right labels are known.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation, which adds the decay to gradients.
      total_steps: How many training has.
      weight_decay: The optimizer's, over all parameters.
      curriculum: One of :data:`har_jax.methods.shared.curricula.CURRICULA`, or ``data_driven``.
      percentile: See :func:`har_jax.methods.shared.curricula.nearest_percentile`.
      decay: See :func:`har_jax.methods.shared.curricula.moving_average`.
      burn_in: All weights are 1 while less than ``burn_in - 1`` percent of training is over. A
        data-driven network is told of no later time than ``burn_in``.
      dropout: See :func:`har_jax.methods.shared.curricula.rates_by_percent`. Other weights are not
        made larger for it.
      wrong: See :func:`har_jax.methods.shared.mentor.mislabel`.
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
                rows = len(_meta_labels(batch))
                batch["meta_key"] = keys_of_rows(jax.random.fold_in(key, _META), rows, axis)
            return step(state, batch, key)

        return stepped

    def told(percent):  # the mentor: of no time at which its weights do not count, or of later ones
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
        lesson = Lesson(loss, loss - average.astype(loss.dtype), told(percent), right)
        mentor, said = study(mentor, lesson, axis=axis)
        return mentor, weighted_sum(((said > 0) == right).astype(jnp.float32))

    def objective(variables, batch, weights, apply_options):
        own, variables, apply_options = _apart(variables, apply_options)
        logits, collections = model.apply(variables, batch["inputs"], **apply_options)
        loss = cross_entropy(logits, batch["labels"])
        known = jax.lax.stop_gradient(loss)
        level = nearest_percentile(known, percentile, axis)
        average = moving_average(own["average"], level, decay)
        percent = percent_of(own["step"], total_steps)
        given = weigh(own, known, known - average.astype(known.dtype), percent)
        given = jnp.where(survivors(batch["chance"], rates, percent, axis), given, 0)
        kept = weighted_sum(given)
        metrics = {
            "loss": weighted_sum(loss),
            "accuracy": accuracy(logits, batch["labels"]),
            "kept": kept,
        }
        new = {**own, "step": own["step"] + 1, "average": average}
        if learned:
            seen = variables, batch, apply_options, average, percent
            new["mentor"], metrics["told_apart"] = study_meta(own["mentor"], *seen)
        value = weighted_sum(given * loss, weights)
        if weight_decay:  # what the optimizer adds to the gradient is to be f times as much
            share = WeightedSum(*summed(kept, axis)).mean()
            penalty = weight_decay / 2 * optax.tree.norm(variables["params"], squared=True)
            less = (share - 1) * penalty.astype(share.dtype)
            value = value._replace(total=value.total + value.weight * less)
        return value, ({**collections, OWN: new}, metrics)

    method = single_network(model, optimizer, objective, beside=beside, **options)
    return method.with_steps(drawn)


def _apart(
    variables: Mapping[str, Any], apply_options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The method's own collection; the network's variables; options of its ``apply``."""
    theirs = {name: of for name, of in variables.items() if name != OWN}
    mutable = [name for name in apply_options["mutable"] if name != OWN]
    return variables[OWN], theirs, {**apply_options, "mutable": mutable}


def _meta_labels(batch: Batch) -> Array:
    if missing := {"meta_inputs", "meta_labels"} - set(batch):
        raise ValueError(
            f"mentornet: curriculum='data_driven' learns from examples whose labels are known to "
            f"be right, and the batch has no {' and no '.join(sorted(missing))}: set some apart, "
            "or take another curriculum"
        )
    return batch["meta_labels"]
