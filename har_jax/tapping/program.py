"""A traced program with its marks, and what it returns where something is added at them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.extend.core import get_opaque_trace_state
from jax.sharding import PartitionSpec
from jaxtyping import Array

from har_jax.jaxprs import equations, is_variable
from har_jax.tapping.marks import (
    LAYERS,
    MARK,
    Adding,
    Kind,
    TapError,
    Tracing,
    context_of_marks,
    marking_now,
    name_in,
    setting,
)
from har_jax.tapping.refusals import is_out_of_reach, refusal, refuse_hoisted
from har_jax.tapping.running import RULES, run_with


class Tap(NamedTuple):
    """A marked activation of a traced program.

    Attributes:
      name: Of the mark; several taps may share it.
      shape: What loops stack comes first, then what ``jax.vmap`` adds, from the outermost to the
        innermost, then the axes that the marked code sees.
      loops: How many of these axes loops stack.
      mapped: The names of those that ``jax.vmap`` adds, None of one that has none.
      type: Of the activation in its innermost loop.
      axis: What the mark was given, if anything.
    """

    name: str
    shape: tuple[int, ...]
    loops: int
    mapped: tuple[str | None, ...]
    type: Any
    axis: int | str | None

    @property
    def added(self) -> int:
        """How many axes come before those that the marked code sees."""
        return self.loops + len(self.mapped)

    def zeros(self) -> Array:
        """Zeros of the tap's shape, split over devices, or varying along them, as it is."""
        spec = self.type.sharding.spec  # of axes that are split over an explicit mesh
        split = (
            PartitionSpec(*(None,) * (len(self.shape) - len(spec)), *spec) if any(spec) else None
        )
        zeros = jnp.zeros(self.shape, self.type.dtype, out_sharding=split)
        account = getattr(self.type, "manual_axis_type", None)
        varying = sorted(account.varying) if account else ()
        return jax.lax.pcast(zeros, tuple(varying), to="varying") if varying else zeros


class Program(NamedTuple):
    """A traced program and its taps, as :func:`trace` returns it.

    Attributes:
      taps: In the order of the program.
      jaxpr: The program, with its marks.
      shared: Names of functions that were traced once and are called with several first arguments.
      run: Maps perturbations, one for each tap, of its shape, to what the program returns where
        they are added.
    """

    taps: list[Tap]
    jaxpr: core.Jaxpr
    shared: set[str]
    run: Callable[[Sequence[Array]], Any]


def trace(fun: Callable[[], Any], context: Any, kind: Kind = LAYERS) -> Program:
    """Traces a program that contains marks.

    Where all marks stand in the outermost code, one for each call of :func:`mark`, the program is
    called once more when it is run, with zeros added then and there; else the traced one is run.
    The first keeps what a trace does not: rules of differentiation that close over values of the
    program, and what it returns beside arrays.

    Args:
      fun: The program, with all that it reads; it returns a tree.
      context: What functions that JAX has traced before, in it or in none, are not used again
        outside of: it has to be another one where other calls are marked. Hashable.
      kind: Of the marks; others do nothing.

    Raises:
      TapError: if a mark lies where nothing can be added to it.
    """
    rest: list[Any] = []
    tree = None

    def arrays() -> list[Array]:
        nonlocal tree
        tracing.outermost = get_opaque_trace_state(convention="flax")
        leaves, tree = jax.tree.flatten(fun())
        rest[:] = [None if _is_array(leaf) else leaf for leaf in leaves]
        return [leaf for leaf in leaves if _is_array(leaf)]

    tracing = Tracing(kind)
    with context_of_marks(context), setting(marking_now, tracing):
        closed = jax.make_jaxpr(arrays)()
        jaxpr = _without_dead_marks(closed.jaxpr)
        refuse_hoisted(jaxpr)
        found = _find(jaxpr, ())
    taps, structure = jax.tree.flatten(found, is_leaf=lambda node: isinstance(node, Tap))
    # What jax.jit(..., inline=True) has traced stands there too, and is not called again.
    outermost = sum(
        equation.primitive is MARK and not equation.params["mapped"]
        and not equation.params["within"]
        for equation in jaxpr.eqns
    )  # fmt: skip
    simple = outermost == len(taps) == tracing.marked

    def run(perturbations: Sequence[Array]) -> Any:
        if simple:
            with context_of_marks(context), setting(marking_now, Adding(kind, iter(perturbations))):
                return fun()
        zeros = jax.tree.unflatten(structure, perturbations)
        outputs = iter(run_with(jaxpr, closed.consts, zeros, []))
        leaves = [next(outputs) if leaf is None else leaf for leaf in rest]
        return jax.tree.unflatten(tree, leaves)

    return Program(taps, closed.jaxpr, _shared(jaxpr), run)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array)


# Taps, and later what is added at them, are kept as a tree: of a program a list with an entry for
# each of its equations, None where that has no mark; of a branching the lists of its branches.
Found: TypeAlias = Any


def _find(jaxpr: core.Jaxpr, loops: tuple[int, ...]) -> list[Found]:
    """The taps of a program that runs in loops of these lengths."""
    return [_find_in(equation, loops) for equation in jaxpr.eqns]


def _find_in(equation: core.JaxprEqn, loops: tuple[int, ...]) -> Found:
    params = equation.params
    if equation.primitive is MARK:
        activation: Any = equation.outvars[0].aval
        shape = (*loops, *activation.shape)
        mapped, axis = params["mapped"], params["axis"]
        return Tap(params["name"], shape, len(loops), mapped, activation, axis)
    if (name := name_in(equation)) is None:
        return None
    kind = equation.primitive.name
    if kind not in RULES or is_out_of_reach(kind, params):
        raise TapError(refusal(name, kind, params))
    if kind == "scan":
        loops = (*loops, params["length"])
    found = [_find(body, loops) for body in core.jaxprs_in_params(params)]
    return found if kind == "cond" else found[0]


def _without_dead_marks(jaxpr: core.Jaxpr) -> core.Jaxpr:
    """The program without marks that nothing depends on, of traces that were thrown away.

    Flax traces the body of a scan once more, to see what of it is the same each time.
    """
    if not any(e.primitive is MARK and e.params["within"] for e in jaxpr.eqns):
        return jaxpr
    needed = set(filter(is_variable, jaxpr.outvars))
    kept = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or needed.intersection(equation.outvars):
            needed.update(filter(is_variable, equation.invars))
            kept.append(equation)
    return jaxpr.replace(eqns=kept[::-1])


def _shared(jaxpr: core.Jaxpr) -> set[str]:
    first: dict[tuple[str, int], Any] = {}
    shared = set()
    for equation in equations(jaxpr):
        if equation.primitive.name in ("jit", "pjit") and equation.invars:
            name, body = equation.params["name"], equation.params["jaxpr"].jaxpr
            if first.setdefault((name, id(body)), equation.invars[0]) is not equation.invars[0]:
                shared.add(name)
    return shared
