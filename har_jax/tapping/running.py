"""Runs a traced program with something added at its marks."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core

from har_jax.jaxprs import is_variable
from har_jax.tapping.marks import MARK
from har_jax.tapping.refusals import CHECKPOINTS


def run_with(
    jaxpr: core.Jaxpr, constants: Sequence[Any], zeros: Sequence[Any], inputs: Sequence[Any]
) -> list[Any]:
    """What a program returns where ``zeros`` are added at its marks."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *inputs], strict=True))
    read = lambda atom: atom.val if isinstance(atom, core.Literal) else values[atom]
    for part, inner in _parts(jaxpr, zeros):
        if inner is None:
            outputs = core.jaxpr_as_fun(core.ClosedJaxpr(part, ()))(*map(read, part.invars))
            values.update(zip(part.outvars, outputs, strict=True))
            continue
        (equation,) = part.eqns
        given = list(map(read, equation.invars))
        if equation.primitive is MARK:
            outputs = [given[0] + inner]
        else:
            with jax.named_scope(str(equation.source_info.name_stack)):
                outputs = RULES[equation.primitive.name](equation, inner, given)
        values.update(zip(equation.outvars, outputs, strict=True))
    return list(map(read, jaxpr.outvars))


def _parts(jaxpr: core.Jaxpr, zeros: Sequence[Any]):
    """A program in order: equations that have marks, one by one, and all that is between them."""
    parts: list[tuple[list[core.JaxprEqn], Any]] = []
    for equation, inner in zip(jaxpr.eqns, zeros, strict=True):
        if inner is None and parts and parts[-1][1] is None:
            parts[-1][0].append(equation)
        else:
            parts.append(([equation], inner))
    needed = set(filter(is_variable, jaxpr.outvars))
    cut = []
    for equations, inner in reversed(parts):
        made = dict.fromkeys(v for equation in equations for v in equation.outvars)
        read = dict.fromkeys(
            v for equation in equations for v in equation.invars if is_variable(v) and v not in made
        )
        part = jaxpr.replace(
            constvars=[], invars=[*read], outvars=[v for v in made if v in needed], eqns=equations
        )
        needed |= read.keys()
        cut.append((part, inner))
    return reversed(cut)


def _run_inline(equation: core.JaxprEqn, zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    (body,) = core.jaxprs_in_params(equation.params)
    values = equation.params.values()
    closed = next(value for value in values if getattr(value, "jaxpr", None) is body)
    return run_with(body, closed.consts, zeros, inputs)


def _run_checkpoint(equation: core.JaxprEqn, zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    body = lambda zeros, inputs: run_with(equation.params["jaxpr"], (), zeros, inputs)
    options = {key: equation.params[key] for key in ("prevent_cse", "policy")}
    return jax.checkpoint(body, **options)(zeros, inputs)


def _run_scan(equation: core.JaxprEqn, zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    closed: core.ClosedJaxpr = equation.params["jaxpr"]
    # Constants and carries are the same inside and outside; of rows there is an axis more outside.
    same = lambda inner, outer: len(inner.shape) == len(outer.shape)
    types = lambda atoms: [atom.aval for atom in atoms]
    carried = sum(map(same, closed.out_avals, types(equation.outvars)))
    kept = sum(map(same, closed.in_avals, types(equation.invars)))
    constants, carry, stack = inputs[: kept - carried], inputs[kept - carried : kept], inputs[kept:]

    def body(carry, row):
        zeros, rows = row
        outputs = run_with(closed.jaxpr, closed.consts, zeros, [*constants, *carry, *rows])
        return outputs[:carried], outputs[carried:]

    options = {key: equation.params[key] for key in ("length", "reverse", "unroll")}
    carry, stacked = jax.lax.scan(body, list(carry), (zeros, list(stack)), **options)
    return [*carry, *stacked]


def _run_cond(equation: core.JaxprEqn, zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    index, *operands = inputs

    def branch(number: int, closed: core.ClosedJaxpr) -> Callable[..., list[Any]]:
        return lambda zeros, *operands: run_with(
            closed.jaxpr, closed.consts, zeros[number], operands
        )

    branches = [branch(*numbered) for numbered in enumerate(equation.params["branches"])]
    return jax.lax.switch(index, branches, zeros, *operands)


RULES: dict[str, Callable[[core.JaxprEqn, Any, Sequence[Any]], list[Any]]] = {
    **dict.fromkeys(("jit", "pjit", "closed_call"), _run_inline),
    **dict.fromkeys(CHECKPOINTS, _run_checkpoint),
    "scan": _run_scan,
    "cond": _run_cond,
}
