"""What stands in a traced program."""

from collections.abc import Iterator
from typing import Any

from jax.extend import core


def is_variable(atom: Any) -> bool:
    return isinstance(atom, core.Var)


def equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """All equations of a program, those inside of others too."""
    for equation in jaxpr.eqns:
        yield equation
        for body in core.jaxprs_in_params(equation.params):
            yield from equations(body)
