"""Marks on activations in a traced program, and zeros added where they stand.

A mark is a primitive that returns what it is given. JAX carries it through every
transformation as it carries an addition, so that the traced program (a jaxpr) says what no
Python code can know: how often each marked call *runs*, whatever stands between it and the
program, be it ``jax.jit``, ``jax.checkpoint``, ``jax.vmap``, a loop or a branch, or what Flax
makes of them. Every mark of the program is a :class:`Tap`:

* a function that is traced once and called twice has two taps for a mark in it;
* a loop (``jax.lax.scan``, ``jax.lax.map``, a ``fori_loop`` of a length that is known) stacks
  its taps along an axis of theirs, and ``jax.vmap`` adds another;
* of a branch that did not run the taps are there, with gradient zero.

What cannot be served is refused: a mark whose gradient JAX does not take (in a
``jax.lax.while_loop``, or in a function with derivatives of its own), or that lies where this
module does not know how to add to it.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.extend.core import get_opaque_trace_state
from jax.interpreters import ad, batching
from jax.sharding import PartitionSpec
from jaxtyping import Array


class TapError(ValueError):
    """The selected layers cannot be tapped: the message names them and the remedy."""


class Tap(NamedTuple):
    """A marked activation of a traced program.

    Attributes:
      name: Of the mark; several taps may share it.
      shape: What loops stack comes first, then what ``jax.vmap`` adds, from the outermost to the
        innermost, then the axes that the marked code sees.
      added: How many of these axes are not seen there.
      type: Of the activation in its innermost loop.
    """

    name: str
    shape: tuple[int, ...]
    added: int
    type: Any

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
      shared: Names of functions that were traced once and are called with several first arguments.
      run: Maps perturbations, one for each tap, of its shape, to what the program returns where
        they are added.
    """

    taps: list[Tap]
    shared: set[str]
    run: Callable[[Sequence[Array]], Any]


def mark(x: Array, name: str) -> Array:
    """Marks an activation of a program that :func:`trace` traces; returns it."""
    if (zeros := _adding.get()) is not None:
        return x + next(zeros)
    if (tracing := _tracing.get()) is not None:
        tracing.marked += 1
    return _mark.bind(x, name=name, mapped=0, differentiated=False, within=_within())


def trace(fun: Callable[[], Any], context: Any) -> Program:
    """Traces a program that contains marks.

    Where all marks stand in the outermost code, one for each call of :func:`mark`, the program is
    called once more when it is run, with zeros added then and there; else the traced one is run.
    The first keeps what a trace does not: rules of differentiation that close over values of the
    program, and what it returns beside arrays.

    Args:
      fun: The program, with all that it reads; it returns a tree.
      context: What functions that JAX has traced before, in it or in none, are not used again
        outside of: it has to be another one where other calls are marked. Hashable.

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

    tracing = _Tracing()
    with _context(context), _set(_tracing, tracing):
        closed = jax.make_jaxpr(arrays)()
    jaxpr = _without_dead_marks(closed.jaxpr)
    _refuse_hoisted(jaxpr)
    found = _find(jaxpr, ())
    taps, structure = jax.tree.flatten(found, is_leaf=lambda node: isinstance(node, Tap))
    outermost = sum(isinstance(node, Tap) and not node.added for node in found)
    simple = outermost == len(taps) == tracing.marked

    def run(perturbations: Sequence[Array]) -> Any:
        if simple:
            with _context(context), _set(_adding, iter(perturbations)):
                return fun()
        zeros = jax.tree.unflatten(structure, perturbations)
        outputs = iter(_run(jaxpr, closed.consts, zeros, []))
        leaves = [next(outputs) if leaf is None else leaf for leaf in rest]
        return jax.tree.unflatten(tree, leaves)

    return Program(taps, _shared(jaxpr), run)


_context = jax.make_user_context()


# Of a mark: its name; how many axes vmaps have added; whether the program takes a gradient through
# it; whether it stands within what a transformation, such as a loop's, traces by itself.
_mark = core.Primitive("har_jax_mark")
_mark.def_abstract_eval(lambda x, **_: x)


@_mark.def_impl
def _compute_now(_: Array, name: str, **__: Any) -> Array:
    raise TapError(
        f"{name} is computed while the model is traced, as under jax.ensure_compile_time_eval, and "
        "would be missing from R: drop that, or leave it out of `layers`"
    )


def _differentiate(primals: Sequence[Array], tangents: Sequence[Array], **options: Any):
    options = {**options, "differentiated": True, "within": _within()}
    return _mark.bind(*primals, **options), *tangents


def _map(axis_of_map: Any, arrays: Sequence[Array], axes: Sequence[int | None], **options: Any):
    """Maps a mark, also one of what is the same for all: it runs as often as everything there."""
    (array,), (axis,) = arrays, axes
    if axis is None:
        rows = jnp.broadcast_to(array, (axis_of_map.size, *array.shape))
    else:
        rows = jnp.moveaxis(array, axis, 0)
    options = {**options, "mapped": options["mapped"] + 1, "within": _within()}
    return _mark.bind(rows, **options), 0


ad.primitive_jvps[_mark] = _differentiate
batching.fancy_primitive_batchers[_mark] = _map


@dataclasses.dataclass
class _Tracing:
    """What is known while a program is traced.

    Attributes:
      outermost: The state of JAX's tracing in its outermost code.
      marked: How often :func:`mark` was called.
    """

    outermost: Any = None
    marked: int = 0


_tracing: contextvars.ContextVar[_Tracing | None] = contextvars.ContextVar("tracing", default=None)
_adding: contextvars.ContextVar[Iterator[Array] | None] = contextvars.ContextVar(
    "adding", default=None
)


@contextlib.contextmanager
def _set(variable: contextvars.ContextVar, value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def _within() -> bool:
    tracing = _tracing.get()
    return tracing is None or get_opaque_trace_state(convention="flax") != tracing.outermost


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array)


def _is_variable(atom: Any) -> bool:
    return isinstance(atom, core.Var)


# Taps, and later what is added at them, are kept as a tree: of a program a list with an entry for
# each of its equations, None where that has no mark; of a branching the lists of its branches.
Found: TypeAlias = Any


def _find(jaxpr: core.Jaxpr, loops: tuple[int, ...]) -> list[Found]:
    """The taps of a program that runs in loops of these lengths."""
    return [_find_in(equation, loops) for equation in jaxpr.eqns]


def _find_in(equation: core.JaxprEqn, loops: tuple[int, ...]) -> Found:
    params = equation.params
    if equation.primitive is _mark:
        activation: Any = equation.outvars[0].aval
        shape = (*loops, *activation.shape)
        return Tap(params["name"], shape, len(loops) + params["mapped"], activation)
    if (name := _name_in(equation)) is None:
        return None
    kind = equation.primitive.name
    if kind not in _RUN or _is_out_of_reach(kind, params):
        raise TapError(_refusal(name, kind, params))
    if kind == "scan":
        loops = (*loops, params["length"])
    found = [_find(body, loops) for body in core.jaxprs_in_params(params)]
    return found if kind == "cond" else found[0]


def _without_dead_marks(jaxpr: core.Jaxpr) -> core.Jaxpr:
    """The program without marks that nothing depends on, of traces that were thrown away.

    Flax traces the body of a scan once more, to see what of it is the same each time.
    """
    if not any(e.primitive is _mark and e.params["within"] for e in jaxpr.eqns):
        return jaxpr
    needed = set(filter(_is_variable, jaxpr.outvars))
    kept = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or needed.intersection(equation.outvars):
            needed.update(filter(_is_variable, equation.invars))
            kept.append(equation)
    return jaxpr.replace(eqns=kept[::-1])


def _refuse_hoisted(jaxpr: core.Jaxpr) -> None:
    """Refuses what may have run more often than it stands there.

    Where a program takes the gradient of a loop, JAX takes out of it what is the same each time.
    """
    everything = list(_equations(jaxpr))
    if not any(equation.primitive.name == "scan" for equation in everything):
        return
    within = lambda equations: [
        each.params for each in equations if each.primitive is _mark and each.params["within"]
    ]
    differentiated = [params for params in within(everything) if params["differentiated"]]
    if hoisted := within(jaxpr.eqns) + differentiated:
        raise TapError(
            f"{hoisted[0]['name']} is called inside of a loop, or another transformation of "
            "JAX, through which the model itself takes a gradient, so that JAX may take it out of "
            "there: write that loop out in Python, or leave it out of `layers`"
        )


def _shared(jaxpr: core.Jaxpr) -> set[str]:
    first: dict[tuple[str, int], Any] = {}
    shared = set()
    for equation in _equations(jaxpr):
        if equation.primitive.name in ("jit", "pjit") and equation.invars:
            name, body = equation.params["name"], equation.params["jaxpr"].jaxpr
            if first.setdefault((name, id(body)), equation.invars[0]) is not equation.invars[0]:
                shared.add(name)
    return shared


def _equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """All equations of a program, those inside of others too."""
    for equation in jaxpr.eqns:
        yield equation
        for body in core.jaxprs_in_params(equation.params):
            yield from _equations(body)


def _name_in(equation: core.JaxprEqn) -> str | None:
    """The name of the first mark inside of an equation; None where there is none."""
    bodies = core.jaxprs_in_params(equation.params)
    inner = (each for body in bodies for each in _equations(body))
    return next((each.params["name"] for each in inner if each.primitive is _mark), None)


def _is_out_of_reach(kind: str, params: dict[str, Any]) -> bool:
    if kind in _CHECKPOINTS:  # its gradient, taken in the program, runs it a second time
        return bool(params["differentiated"])
    return kind == "cond" and params.get("branches_platforms") is not None


def _refusal(name: str, kind: str, params: dict[str, Any]) -> str:
    if kind == "while":
        return (
            f"{name} is called inside of jax.lax.while_loop, through which JAX takes no gradient: "
            "use jax.lax.scan, or a fori_loop whose bounds are Python numbers, or leave it out of "
            "`layers`"
        )
    if kind.startswith(("custom_jvp", "custom_vjp")):
        return (
            f"{name} is called inside of a function with derivatives of its own ({kind}: "
            "jax.custom_vjp, jax.custom_jvp, nn.custom_vjp or the like), which have none for what "
            "is added there: leave it out of `layers`, or tap what that function returns"
        )
    if kind in _CHECKPOINTS:
        return (
            f"{name} is called inside of jax.checkpoint (or nn.remat), through which the model "
            "itself takes a gradient: drop the checkpoint there, or leave it out of `layers`"
        )
    return (
        f"{name} is called inside of a transformation of JAX that R cannot be taken through, "
        f"{params.get('name', kind)!r} ({kind}): leave it out of `layers`, or put the "
        "transformation around the whole step in place of a part of the model"
    )


def _run(
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
        if equation.primitive is _mark:
            outputs = [given[0] + inner]
        else:
            with jax.named_scope(str(equation.source_info.name_stack)):
                outputs = _RUN[equation.primitive.name](equation, inner, given)
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
    needed = set(filter(_is_variable, jaxpr.outvars))
    cut = []
    for equations, inner in reversed(parts):
        made = dict.fromkeys(v for equation in equations for v in equation.outvars)
        read = dict.fromkeys(
            v
            for equation in equations
            for v in equation.invars
            if _is_variable(v) and v not in made
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
    return _run(body, closed.consts, zeros, inputs)


def _run_checkpoint(equation: core.JaxprEqn, zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    body = lambda zeros, inputs: _run(equation.params["jaxpr"], (), zeros, inputs)
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
        outputs = _run(closed.jaxpr, closed.consts, zeros, [*constants, *carry, *rows])
        return outputs[:carried], outputs[carried:]

    options = {key: equation.params[key] for key in ("length", "reverse", "unroll")}
    carry, stacked = jax.lax.scan(body, list(carry), (zeros, list(stack)), **options)
    return [*carry, *stacked]


def _run_cond(equation: core.JaxprEqn, zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    index, *operands = inputs

    def branch(number: int, closed: core.ClosedJaxpr) -> Callable[..., list[Any]]:
        return lambda zeros, *operands: _run(closed.jaxpr, closed.consts, zeros[number], operands)

    branches = [branch(*numbered) for numbered in enumerate(equation.params["branches"])]
    return jax.lax.switch(index, branches, zeros, *operands)


_CHECKPOINTS = ("checkpoint", "remat", "remat2")
_RUN: dict[str, Callable[[core.JaxprEqn, Any, Sequence[Any]], list[Any]]] = {
    **dict.fromkeys(("jit", "pjit", "closed_call"), _run_inline),
    **dict.fromkeys(_CHECKPOINTS, _run_checkpoint),
    "scan": _run_scan,
    "cond": _run_cond,
}
