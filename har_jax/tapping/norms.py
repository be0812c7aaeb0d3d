"""Losses and norms of a traced program, of gradients at its taps."""

import collections
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jaxtyping import Array, Float

from har_jax import jacobian
from har_jax.jacobian import Axes, Derivative, LossAndNorm, Reduction
from har_jax.tapping.marks import TapError
from har_jax.tapping.program import Program


def loss_and_norm_of(
    program: Program,
    axes: Sequence[Axes],
    loss: Callable[[Any], tuple[Float[Array, " B"], Any]],
    *,
    reduction: Reduction,
    derivative: Derivative,
) -> LossAndNorm:
    """:func:`har_jax.loss_and_perturbation_norm` of a program with zeros at its taps.

    Args:
      program: With one tap at least.
      axes: Of each tap.
      loss: Maps what the program returns to ``(loss, aux)``, the loss of shape ``[B]``.
      reduction: As there.
      derivative: As there.

    Returns:
      What that function returns. The layers' norms are by the tap's name, which ends in ``[0]``,
      ``[1]``, ... where several have one.

    Raises:
      TapError: if a rule of differentiation needs values of a trace that is over.
    """
    names = _numbered([tap.name for tap in program.taps])
    zeros = {name: tap.zeros() for name, tap in zip(names, program.taps, strict=True)}

    def perturbed(perturbations: dict[str, Array]) -> tuple[Float[Array, " B"], Any]:
        return loss(program.run([perturbations[name] for name in names]))

    try:
        return jacobian.loss_and_perturbation_norm(
            perturbed,
            zeros,
            dict(zip(names, axes, strict=True)),
            reduction=reduction,
            derivative=derivative,
        )
    except jax.errors.UnexpectedTracerError as error:
        raise TapError(
            "a value of the model's trace is used when that is over, as where the rule of a "
            "jax.custom_jvp or custom_vjp function closes over computed values, and what is tapped "
            "is inside of jax.jit, a loop or the like: give them to that function as arguments"
        ) from error


def _numbered(names: Sequence[str]) -> list[str]:
    """Names that differ: ``norm[0]``, ``norm[1]``, ... where several are ``norm``.

    A name that somebody has given, such as ``norm[0]``, is left to its owner.
    """
    counts = collections.Counter(names)
    numbers = {name: itertools.count() for name in counts}
    taken = {name for name, count in counts.items() if count == 1}
    numbered = []
    for name in names:
        if counts[name] > 1:
            free = (f"{name}[{number}]" for number in numbers[name])
            name = next(each for each in free if each not in taken)
            taken.add(name)
        numbered.append(name)
    return numbered
