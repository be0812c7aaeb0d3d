"""The methods that a config can name: what each reads, needs and is."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from har_jax import methods
from har_jax.linen.layers import FILTERS
from har_jax.strength import (
    GroupStatistics,
    inverse_strength,
    random_strength,
    scale_to_maximum,
)


class Setting(NamedTuple):
    """What strengths are computed from.

    Attributes:
      regularizer: The config's section.
      groups: ``[n]``, of the training set.
      statistics: Of every group; None for methods that do not need them.
      seed: For strengths that are drawn.
    """

    regularizer: Mapping[str, Any]
    groups: np.ndarray
    statistics: GroupStatistics | None
    seed: int


class Entry(NamedTuple):
    """A method that a config can name.

    Attributes:
      make: ``(model, optimizer, regularizer, **options) -> Method``.
      strength: The factor of R of every training example, ``[n]``; None for methods that do
        not regularize.
      reads: The config keys that it reads beyond those that every method does.
      estimates: Whether it needs the statistics of a pre-trained model.
    """

    make: Callable[..., methods.Method]
    strength: Callable[[Setting], Float[np.ndarray, " n"]] | None = None
    reads: tuple[str, ...] = ()
    estimates: bool = False


def _erm(model, optimizer, regularizer, **options) -> methods.Method:
    return methods.erm(model, optimizer, **options)


def _har(model, optimizer, regularizer, **options) -> methods.Method:
    return methods.har(
        model,
        optimizer,
        layers=FILTERS[regularizer["layers"]],
        reduction=regularizer["reduction"],
        max_norm=regularizer["max_norm"],
        **options,
    )


def _uniform(setting: Setting) -> Float[np.ndarray, " n"]:
    return np.full(len(setting.groups), float(setting.regularizer["uniform_strength"]))


def _adaptive(setting: Setting) -> Float[np.ndarray, " n"]:
    assert setting.statistics is not None
    by_group = scale_to_maximum(setting.statistics.tau, setting.regularizer["strength"])
    return setting.statistics.per_example(by_group, setting.groups)


def _random(setting: Setting) -> Float[np.ndarray, " n"]:
    return random_strength(_adaptive(setting), setting.seed)


def _inverse(setting: Setting) -> Float[np.ndarray, " n"]:
    return inverse_strength(_adaptive(setting))


_R = ("regularizer.layers", "regularizer.reduction")
_PENALTY = (*_R, "regularizer.max_norm")
_MAXIMUM = (*_PENALTY, "regularizer.strength")

METHODS: Mapping[str, Entry] = {
    "erm": Entry(_erm),
    "uniform": Entry(_har, _uniform, (*_PENALTY, "regularizer.uniform_strength")),
    "har": Entry(_har, _adaptive, _MAXIMUM, estimates=True),
    "har_random": Entry(_har, _random, _MAXIMUM, estimates=True),
    "har_inverse": Entry(_har, _inverse, _MAXIMUM, estimates=True),
}
