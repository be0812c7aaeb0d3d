"""Losses and norms of a traced program, of gradients at its taps."""

import collections
from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import Array, Float

from har_jax import jacobian
from har_jax.jacobian import Axes, Derivative, LossAndNorm, Reduction
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
    """
    names = _numbered([tap.name for tap in program.taps])
    zeros = {name: tap.zeros() for name, tap in zip(names, program.taps, strict=True)}

    def perturbed(perturbations: dict[str, Array]) -> tuple[Float[Array, " B"], Any]:
        return loss(program.run([perturbations[name] for name in names]))

    return jacobian.loss_and_perturbation_norm(
        perturbed,
        zeros,
        dict(zip(names, axes, strict=True)),
        reduction=reduction,
        derivative=derivative,
    )


def _numbered(names: Sequence[str]) -> list[str]:
    """Names that differ: ``norm[0]``, ``norm[1]``, ... where several are ``norm``."""
    counts, seen = collections.Counter(names), collections.Counter[str]()
    numbered = []
    for name in names:
        numbered.append(name if counts[name] == 1 else f"{name}[{seen[name]}]")
        seen[name] += 1
    return numbered
