"""Functions whose closed-over values are arguments, as ``jax.custom_vjp`` has to be given them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend import core
from jaxtyping import PyTree


class Hoisted(NamedTuple):
    """A traced function.

    Attributes:
      constants: All arrays that it closes over: integers such as labels, and keys, too, which
        ``jax.closure_convert`` leaves behind.
      run: Maps constants and arguments to what the function returns, by running its trace.
      program: The trace, with constants and arguments as its inputs.
    """

    constants: Sequence[Any]
    run: Callable[..., Any]
    program: core.Jaxpr


def hoist(fun: Callable[..., PyTree], *arguments: PyTree) -> Hoisted:
    """Traces a function that returns a tree of arrays."""
    closed, shapes = jax.make_jaxpr(fun, return_shape=True)(*arguments)
    program = closed.jaxpr.replace(
        constvars=[], invars=[*closed.jaxpr.constvars, *closed.jaxpr.invars]
    )
    flat = core.jaxpr_as_fun(core.ClosedJaxpr(program, ()))
    tree = jax.tree.structure(shapes)

    def run(constants: Sequence[Any], *arguments: PyTree) -> PyTree:
        return jax.tree.unflatten(tree, flat(*constants, *jax.tree.leaves(arguments)))

    return Hoisted(closed.consts, run, program)


def hoist_gradient(fun: Callable[..., PyTree], *arguments: PyTree) -> Hoisted:
    """:func:`hoist` of a function that has all it needs as arguments, and differentiates a trace.

    Raises:
      ValueError: if a rule of differentiation in that trace closes over computed values. They were
        of the time when it was traced.
    """
    hoisted = hoist(fun, *arguments)
    if any(isinstance(constant, jax.core.Tracer) for constant in hoisted.constants):
        raise ValueError(
            "a rule of differentiation (of a jax.custom_jvp or custom_vjp function) in the network "
            "or the loss closes over computed values, which a trace does not keep: give them to "
            'that function as arguments, or take derivative="exact"'
        )
    return hoisted
