"""Optimizers and learning-rate schedules by name, and a warm-up for all of the latter."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from har_jax.options import Option, make

Result = TypeVar("Result")


def constant(rate: float, total_steps: int, steps_per_epoch: float) -> optax.Schedule:
    """The same rate at all steps."""
    return optax.constant_schedule(rate)


def cosine(
    rate: float, total_steps: int, steps_per_epoch: float, *, warmup_steps: int = 0
) -> optax.Schedule:
    """A rate that falls to 0 as a cosine, from the end of the warm-up on."""
    decay = optax.cosine_decay_schedule(rate, max(total_steps - warmup_steps, 1))
    return (lambda count: decay(jnp.maximum(count - warmup_steps, 0))) if warmup_steps else decay


def step(
    rate: float,
    total_steps: int,
    steps_per_epoch: float,
    *,
    decay_epochs: Annotated[
        Sequence[Annotated[float, Option(gt=0, le=1e6)]],
        Option("when the learning rate falls", must="hold positive epochs"),
    ],
    decay_factor: Annotated[float, Option("what it is multiplied by then", gt=0, le=1)],
) -> optax.Schedule:
    """A rate that is multiplied by a factor at each of some epochs."""
    scales: dict[int, float] = {}
    for epoch in decay_epochs:  # two of them may fall on one step
        boundary = round(epoch * steps_per_epoch)
        scales[boundary] = scales.get(boundary, 1.0) * decay_factor
    return optax.piecewise_constant_schedule(rate, scales)


def linear(
    rate: float,
    total_steps: int,
    steps_per_epoch: float,
    *,
    decay_from: Annotated[
        float, Option("the epoch from which the learning rate falls to 0", ge=0, le=1e6)
    ],
) -> optax.Schedule:
    """A rate that stays until an epoch, and then falls linearly, once an epoch, to 0 at the end."""
    epochs = math.floor((total_steps - 1) / steps_per_epoch) + 1  # that are begun

    def schedule(count):
        left = epochs - jnp.floor(_epochs(count, steps_per_epoch))
        return rate * jnp.minimum(left / max(epochs - decay_from, 1), 1)

    return schedule


@dataclasses.dataclass(frozen=True)
class WarmUp:
    r"""A rate that grows linearly to the schedule's: at epoch e times

    .. math:: a + (1 - a) \min(e / E, 1)

    with a = ``warmup_from`` and E = ``warmup_epochs``, where e counts what has gone by, in parts of
    an epoch or in whole ones. Epochs of a schedule are counted from the start of training; a cosine
    begins at the end of the warm-up.

    The code of Cui et al. 2019 (arXiv 1901.05555) has E = 5 by step from a = 0, that of Zhou et al.
    2020 (arXiv 1912.02413) E = 5 by epoch from 1 / 3. Cao et al. 2019 (arXiv 1906.07413) take
    (e + 1) / 5 of the rate, which is E = 4 by epoch from 1 / 5.
    """

    warmup_epochs: Annotated[
        float, Option("in which the learning rate grows to the schedule's", ge=0, le=1e6)
    ] = 0.0
    warmup_from: Annotated[
        float, Option("the share of the schedule's rate that a warm-up begins with", ge=0, lt=1)
    ] = 0.0
    warmup_by: Annotated[
        Literal["step", "epoch"], Option("whether it grows at each step, or once an epoch")
    ] = "step"

    @property
    def end(self) -> float:
        """The epoch at which it is over."""
        return math.ceil(self.warmup_epochs) if self.warmup_by == "epoch" else self.warmup_epochs

    def steps(self, steps_per_epoch: float) -> int:
        """How many steps it takes."""
        return round(self.end * steps_per_epoch)

    def before(self, schedule: optax.Schedule, steps_per_epoch: float) -> optax.Schedule:
        """A schedule that begins so; the same where there is no warm-up."""
        if not self.warmup_epochs:
            return schedule

        def warmed(count):
            epochs = _epochs(count, steps_per_epoch)
            epochs = jnp.floor(epochs) if self.warmup_by == "epoch" else epochs
            missing = jnp.maximum(1 - epochs / self.warmup_epochs, 0)
            return schedule(count) * (1 - (1 - self.warmup_from) * missing)

        return warmed


def sgd(
    schedule: optax.Schedule,
    *,
    momentum: Annotated[float, Option("of stochastic gradient descent", ge=0, lt=1)] = 0.9,
    nesterov: Annotated[
        bool, Option("whether a step goes by the momentum that is to come")
    ] = False,
) -> optax.GradientTransformation:
    """Stochastic gradient descent with momentum."""
    return optax.sgd(schedule, momentum=momentum, nesterov=nesterov)


def adam(
    schedule: optax.Schedule,
    *,
    steps_per_epoch: float,
    b1: Annotated[float, Option("the decay of Adam's first moment", ge=0, lt=1)] = 0.9,
    late_b1: Annotated[
        tuple[Annotated[float, Option(ge=0, le=1e6)], Annotated[float, Option(ge=0, lt=1)]] | None,
        Option("an epoch, and the decay from it on", must="hold an epoch and a decay below 1"),
    ] = None,
) -> optax.GradientTransformation:
    """Adam, with Optax's defaults."""
    if late_b1 is None:
        return optax.adam(schedule, b1=b1)
    epoch, late = late_b1

    def update(updates, state, params=None):
        begun = _epochs(state.count, steps_per_epoch) >= epoch
        rule = optax.scale_by_adam(b1=jnp.where(begun, late, b1))
        return rule.update(updates, state, params)

    moments = optax.GradientTransformation(optax.scale_by_adam().init, update)
    return optax.chain(moments, optax.scale_by_learning_rate(schedule))


@dataclasses.dataclass(frozen=True)
class WeightDecay:
    """The decay that is added to gradients, of which parameters."""

    weight_decay: Annotated[float, Option("added to gradients", ge=0)] = 1e-4
    weight_decay_of: Annotated[
        Literal["all", "kernels"],
        Option("the parameters that decay: all, or none that is called bias or scale"),
    ] = "all"

    @property
    def mask(self) -> Callable[[PyTree], PyTree] | None:
        """``params -> whether each decays``; None where all do."""
        return None if self.weight_decay_of == "all" else kernels


def kernels(params: PyTree) -> PyTree:
    """Whether each parameter is none that is called ``bias`` or ``scale``, as Flax's norms have."""

    def is_kernel(path, _):
        return jax.tree_util.keystr(path[-1:], simple=True) not in ("bias", "scale")

    return jax.tree_util.tree_map_with_path(is_kernel, params)


def _epochs(count: Int[Array, ""] | int, steps_per_epoch: float) -> Float[Array, ""]:
    """How many epochs so many steps are."""
    return jnp.asarray(count) / steps_per_epoch


SCHEDULES: Mapping[str, Callable[..., optax.Schedule]] = {
    "constant": constant,
    "cosine": cosine,
    "step": step,
    "linear": linear,
}
OPTIMIZERS: Mapping[str, Callable[..., optax.GradientTransformation]] = {"sgd": sgd, "adam": adam}
"""What a config can name; options of both lie in its section ``optimizer``."""


def make_schedule(
    config: Mapping[str, Any], total_steps: int, steps_per_epoch: float
) -> optax.Schedule:
    """The learning rate by step that a config's section describes, its warm-up included."""
    warm_up = make(WarmUp, chosen=config)
    given = {"warmup_steps": warm_up.steps(steps_per_epoch)}
    of = (config["learning_rate"], total_steps, steps_per_epoch)
    schedule = make(SCHEDULES[config["schedule"]], *of, chosen=config, given=given)
    return _promoted(warm_up.before(schedule, steps_per_epoch))


def make_optimizer(
    config: Mapping[str, Any], total_steps: int, steps_per_epoch: float
) -> optax.GradientTransformation:
    """The optimizer that a config's section describes, after weight decay.

    The decay is added to gradients, by default of all parameters: the coupled form of PyTorch's
    SGD, which the authors' code uses.
    """
    schedule = make_schedule(config, total_steps, steps_per_epoch)
    given = {"steps_per_epoch": steps_per_epoch}
    rule = make(OPTIMIZERS[config["name"]], schedule, chosen=config, given=given)
    decay = make(WeightDecay, chosen=config)
    chain = optax.chain(optax.add_decayed_weights(decay.weight_decay, decay.mask), rule)
    return optax.GradientTransformation(_promoted(chain.init), _promoted(chain.update))


def _promoted(fun: Callable[..., Result]) -> Callable[..., Result]:
    """The same under strict promotion of dtypes, where Optax mixes a rate with a count of steps."""

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Result:
        with jax.numpy_dtype_promotion("standard"):
            return fun(*args, **kwargs)

    return call
