"""What stands in a traced program."""

from collections.abc import Iterator
from typing import Any

from jax.extend import core

from har_jax.tapping.marks import MARK


def is_variable(atom: Any) -> bool:
    return isinstance(atom, core.Var)


def equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """All equations of a program, those inside of others too."""
    for equation in jaxpr.eqns:
        yield equation
        for body in core.jaxprs_in_params(equation.params):
            yield from equations(body)


def name_in(equation: core.JaxprEqn) -> str | None:
    """The name of the first mark inside of an equation; None where there is none."""
    bodies = core.jaxprs_in_params(equation.params)
    inner = (each for body in bodies for each in equations(body))
    return next((each.params["name"] for each in inner if each.primitive is MARK), None)
