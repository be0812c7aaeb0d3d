"""A method that a config can name, with what it needs beside its three functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from har_jax.methods.shared.base import Method
from har_jax.strength import GroupStatistics


class Setting(NamedTuple):
    """What strengths are computed from.

    Attributes:
      groups: ``[n]``, of the training set.
      statistics: Of every group; None for methods that do not need them.
      seed: For strengths that are drawn.
    """

    groups: np.ndarray
    statistics: GroupStatistics | None
    seed: int


class Entry(NamedTuple):
    """A method that a config can name.

    Keyword-only parameters of ``make`` and ``strength`` that are described by a
    :class:`har_jax.options.Option` are its options.

    Attributes:
      make: ``(model, optimizer, **options) -> Method``; beside its own options it is given those
        of :class:`har_jax.methods.StepOptions` and, if it takes them, ``layers``.
      strength: ``(Setting, **options) -> [n]``, the factor of R of every training example; None
        for methods that do not regularize.
      estimates: Whether it needs the statistics of a pre-trained model.
      section: Of the config, in which its options are; None for ``method.NAME``.
    """

    make: Callable[..., Method]
    strength: Callable[..., Float[np.ndarray, " n"]] | None = None
    estimates: bool = False
    section: str | None = None

    @property
    def parts(self) -> tuple[Callable[..., Any], ...]:
        """What has options."""
        return (self.make,) if self.strength is None else (self.make, self.strength)
