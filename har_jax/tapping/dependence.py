"""Marks that what a program returns does not depend on."""

from collections.abc import Iterator, Sequence
from typing import Any

from jax.extend import core

from har_jax.jaxprs import is_variable
from har_jax.tapping.marks import MARK, name_in


def unused_marks(jaxpr: core.Jaxpr, outputs: Sequence[Any]) -> list[str]:
    """The names of marks that some outputs of a program do not depend on.

    What stands inside of a loop is taken to be used where the loop is. Marks of traces that were
    thrown away are left out.

    Args:
      jaxpr: The program, in which every mark is within reach.
      outputs: Those of its outputs that are asked about.
    """
    thrown_away = {
        id(equation)
        for equation in jaxpr.eqns
        if equation.primitive is MARK and equation.params["within"]
    }
    unused = [e for e in _unused(jaxpr, outputs) if id(e) not in thrown_away]
    return [equation.params["name"] for equation in reversed(unused)]


def _unused(jaxpr: core.Jaxpr, outputs: Sequence[Any]) -> Iterator[core.JaxprEqn]:
    """The marks that are not used, from the last on."""
    needed = set(filter(is_variable, outputs))
    for equation in reversed(jaxpr.eqns):
        used = not needed.isdisjoint(equation.outvars)
        if equation.primitive is MARK and not used:
            yield equation
        elif name_in(equation) is not None:
            for body in core.jaxprs_in_params(equation.params):
                yield from _unused(body, _outputs_inside(equation, body, needed))
        if used:
            needed.update(filter(is_variable, equation.invars))


def _outputs_inside(equation: core.JaxprEqn, body: core.Jaxpr, needed: set[Any]) -> list[Any]:
    """The outputs of what an equation runs that are needed outside of it."""
    if equation.primitive.name == "scan":
        return [] if needed.isdisjoint(equation.outvars) else body.outvars
    pairs = zip(body.outvars, equation.outvars, strict=True)
    return [inner for inner, outer in pairs if outer in needed]
