"""Marks that what a program returns does not depend on."""

import collections
from collections.abc import Iterable, Sequence

from jax.extend import core
from jax.interpreters import partial_eval

from har_jax.jaxprs import equations
from har_jax.tapping.marks import MARK


def unused_marks(jaxpr: core.Jaxpr, outputs: Sequence[bool]) -> list[str]:
    """The names of marks that some outputs of a program do not depend on.

    Marks of traces that were thrown away are left out.

    Args:
      jaxpr: The program, in which every mark is within reach.
      outputs: Of each of its outputs, whether it is asked about.
    """
    used, _ = partial_eval.dce_jaxpr(jaxpr, outputs)
    kept = set(map(id, used.eqns))
    thrown_away = [
        equation
        for equation in jaxpr.eqns
        if equation.primitive is MARK and equation.params["within"] and id(equation) not in kept
    ]
    unused = _names(equations(jaxpr)) - _names(equations(used)) - _names(thrown_away)
    return list(unused)


def _names(equations: Iterable[core.JaxprEqn]) -> collections.Counter[str]:
    return collections.Counter(each.params["name"] for each in equations if each.primitive is MARK)
