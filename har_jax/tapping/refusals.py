"""Marks that nothing can be added at, and what is said of them."""

from collections.abc import Iterable
from typing import Any

from jax.extend import core

from har_jax.jaxprs import equations
from har_jax.tapping.marks import MARK, TapError, kind_now

CHECKPOINTS = ("checkpoint", "remat", "remat2")


def refuse_hoisted(jaxpr: core.Jaxpr) -> None:
    """Refuses what may have run more often than it stands there.

    Where a program takes the gradient of a loop, JAX takes out of it what is the same each time.
    What it takes out of a branch, where ``jax.vmap`` runs all branches, looks alike but for that
    gradient.
    """
    everything = list(equations(jaxpr))
    if not any(equation.primitive.name == "scan" for equation in everything):
        return
    within = lambda equations: [
        each.params for each in equations if each.primitive is MARK and each.params["within"]
    ]
    differentiated = [params for params in within(everything) if params["differentiated"]]
    outermost = within(jaxpr.eqns)
    if not any("jvp(" in str(equation.source_info.name_stack) for equation in everything):
        outermost = [params for params in outermost if not params["mapped"]]
    if hoisted := outermost + differentiated:
        subject, remedy = kind_now()
        raise TapError(
            f"{subject.format(hoisted[0]['name'])} is called inside of a loop, or another "
            "transformation of JAX, through which the model itself takes a gradient, so that JAX "
            f"may take it out of there: write that loop out in Python, or {remedy}"
        )


def refuse_uncalled(uncalled: Iterable[str], tapped: Iterable[str]) -> None:
    """Refuses modules of NNX that are selected, and neither seen called nor found in a program.

    Raises:
      TapError: if there are any.
    """
    if missing := sorted(set(uncalled) - set(tapped)):
        raise TapError(
            f"the filter `layers` selects {', '.join(missing)}, of which no call is seen: leave "
            "out what the model does not call, and call modules by themselves, `module(x)`, "
            "rather than by a method or by their class"
        )


def is_out_of_reach(kind: str, params: dict[str, Any]) -> bool:
    if kind in CHECKPOINTS:  # its gradient, taken in the program, runs it a second time
        return bool(params["differentiated"])
    return kind == "cond" and params.get("branches_platforms") is not None


def refusal(name: str, kind: str, params: dict[str, Any]) -> str:
    subject, remedy = kind_now()
    name = subject.format(name)
    if kind == "while":
        return (
            f"{name} is called inside of jax.lax.while_loop, through which JAX takes no gradient: "
            f"use jax.lax.scan, or a fori_loop whose bounds are Python numbers, or {remedy}"
        )
    if kind.startswith(("custom_jvp", "custom_vjp")):
        return (
            f"{name} is called inside of a function with derivatives of its own ({kind}: "
            "jax.custom_vjp, jax.custom_jvp, nn.custom_vjp or the like), which have none for what "
            f"is added there: {remedy}, or tap what that function returns"
        )
    if kind in CHECKPOINTS:
        return (
            f"{name} is called inside of jax.checkpoint (or nn.remat), through which the model "
            f"itself takes a gradient: drop the checkpoint there, or {remedy}"
        )
    return (
        f"{name} is called inside of a transformation of JAX that R cannot be taken through, "
        f"{params.get('name', kind)!r} ({kind}): {remedy}, or put the "
        "transformation around the whole step in place of a part of the model"
    )
