"""A method that a config can name, with what it needs beside its three functions."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from har_jax.losses import Loss
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.selecting import CrossValidation
from har_jax.options import parameters

FACTS = (
    "layers",
    "num_examples",
    "steps_per_epoch",
    "total_steps",
    "learning_rate",
    "weight_decay",
    "decayed",
    "selected_noise_rate",
    "loss",
)
"""What the program gives to a method that takes it by name: a filter of layers; how many examples
are trained on, and steps see all of them, and are made in all; the learning rate by step, and the
decay of weights that the optimizer adds to gradients, and ``params -> which of them decay``, or
None for all; the share of wrong labels among examples that were selected; a loss, which is that of
its entry or else of ``config.loss``."""

GIVEN_TO_LOSSES = frozenset({"counts"})
"""What the program gives to a loss that takes it by name: how many training examples have each
label."""


class Setting(NamedTuple):
    """What is known before training, of the n training examples.

    Attributes:
      labels: ``[n]``.
      groups: ``[n]``.
      probabilities: ``[n, K]``, out of sample, rows of NaN where nothing is known; None for methods
        that do not need them.
      seed: For what is drawn.
      noise: ``[n]``, I of the neighbourhood of each; as the next two, None for methods that do not
        need what is estimated.
      frequency: ``[n]``, q.
      tau: ``[n]``, :math:`I^{3/5} / q^{2/5}`.
    """

    labels: Int[np.ndarray, " n"]
    groups: Int[np.ndarray, " n"]
    probabilities: Float[np.ndarray, "n K"] | None
    seed: int
    noise: Float[np.ndarray, " n"] | None = None
    frequency: Float[np.ndarray, " n"] | None = None
    tau: Float[np.ndarray, " n"] | None = None


class Entry(NamedTuple):
    """A method that a config can name.

    Keyword-only parameters of ``make``, ``loss``, ``strength``, ``labels`` and ``selects`` that are
    described by a :class:`har_jax.options.Option` are its options. One called ``noise_rate`` that
    is None is estimated out of sample, and ``warm_up`` by what is selected.

    Attributes:
      make: ``(model, optimizer, **options) -> Method``; beside its own options it is given those
        of :class:`har_jax.methods.StepOptions` and, of :data:`FACTS`, those that it takes.
      strength: ``(Setting, **options) -> [n]``, the factor of R of every training example; None
        for methods that do not regularize.
      labels: ``(Setting, **options) -> [n]``, the labels that examples are trained with, -1 of
        those that are left out, from out-of-sample probabilities of all; None for methods that take
        them as they are.
      selects: ``**options -> CrossValidation``, how the examples are selected that it is trained
        on; beside a batch of these come ``candidate_inputs`` and ``candidate_labels`` of those
        that are neither selected nor removed, if there are some. None for methods that are trained
        on all.
      loss: ``(**options) -> har_jax.losses.Loss``, what ``make`` takes by the name ``loss``; None
        for methods that take that of ``config.loss``, or none.
      estimates: Whether it needs the statistics of a pre-trained model.
      sees_meta: ``options -> whether`` its batches have ``meta_inputs`` and ``meta_labels``, of
        examples whose labels are known to be right.
      sees_reversed: Whether its batches have ``reversed_inputs`` and ``reversed_labels`` of as many
        of the same examples, drawn so that rare classes are frequent.
      branches: How many last parts its network has; 2 is for networks of which
        :func:`har_jax.methods.shared.branches.can_branch` is true.
      starts: Whether training starts from a network that was trained plainly, which is ``start`` of
        the options.
      whole_batches: Whether a batch cannot be gone through in parts.
      requires: Packages that it needs beyond the command's, by the names that they are imported
        by.
      section: Of the config, in which its options are; None for ``method.NAME``.
    """

    make: Callable[..., Method]
    strength: Callable[..., Float[np.ndarray, " n"]] | None = None
    labels: Callable[..., Int[np.ndarray, " n"]] | None = None
    selects: Callable[..., CrossValidation] | None = None
    loss: Callable[..., Loss] | None = None
    estimates: bool = False
    sees_meta: Callable[[Mapping[str, Any]], bool] = lambda options: False
    sees_reversed: bool = False
    branches: int = 1
    starts: bool = False
    whole_batches: bool = False
    requires: tuple[str, ...] = ()
    section: str | None = None

    @property
    def parts(self) -> tuple[Callable[..., Any], ...]:
        """What has options."""
        parts = (self.make, self.loss, self.strength, self.labels, self.selects)
        return tuple(part for part in parts if part is not None)

    @property
    def takes_any_loss(self) -> bool:
        """Whether it minimizes the loss of ``config.loss``."""
        return self.loss is None and self.takes("loss")

    def takes(self, name: str) -> bool:
        """Whether ``make`` takes what the program gives by this name, such as ``layers``."""
        return any(parameter.name == name for parameter in parameters(self.make))
