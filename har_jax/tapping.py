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

import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.extend.core import get_opaque_trace_state
from jax.interpreters import ad, batching
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
        """Zeros of the tap's shape, which vary along mapped axes as the activation does."""
        zeros = jnp.zeros(self.shape, self.type.dtype)
        account = getattr(self.type, "manual_axis_type", None)
        varying = sorted(account.varying) if account else ()
        return jax.lax.pcast(zeros, tuple(varying), to="varying") if varying else zeros


class Program(NamedTuple):
    """A traced program and its taps, as :func:`trace` returns it.

    Attributes:
      taps: In the order of the program.
      outputs: What the program returns, with shapes in place of arrays.
      run: Maps perturbations, one for each tap, of its shape, to what the program returns where
        they are added.
    """

    taps: list[Tap]
    outputs: Any
    run: Callable[[Sequence[Array]], Any]


def mark(x: Array, name: str) -> Array:
    """Marks an activation of a program that :func:`trace` traces; returns it."""
    return _mark.bind(x, name=name, mapped=0, differentiated=False, within=_within())


def trace(fun: Callable[[], Any], context: Any) -> Program:
    """Traces a program that contains marks.

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
        leaves, tree = jax.tree.flatten(fun())
        rest[:] = [None if _is_array(leaf) else leaf for leaf in leaves]
        return [leaf for leaf in leaves if _is_array(leaf)]

    with _context(context):
        closed = jax.make_jaxpr(_noting_outermost(arrays))()
    _refuse_hoisted(closed.jaxpr)
    found = _find(closed.jaxpr, ())
    taps, structure = jax.tree.flatten(found, is_leaf=lambda node: isinstance(node, Tap))

    def returned(outputs: Sequence[Any]) -> Any:
        each = iter(outputs)
        return jax.tree.unflatten(tree, [next(each) if leaf is None else leaf for leaf in rest])

    def run(perturbations: Sequence[Array]) -> Any:
        zeros = jax.tree.unflatten(structure, perturbations)
        return returned(_run(closed.jaxpr, closed.consts, zeros, []))

    return Program(taps, returned(closed.out_avals), run)


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


def _map(arrays: Sequence[Array], axes: Sequence[int], **options: Any):
    options = {**options, "mapped": options["mapped"] + 1, "within": _within()}
    return _mark.bind(jnp.moveaxis(arrays[0], axes[0], 0), **options), 0


ad.primitive_jvps[_mark] = _differentiate
batching.primitive_batchers[_mark] = _map

_outermost: contextvars.ContextVar[Any] = contextvars.ContextVar("outermost", default=None)


def _noting_outermost(fun: Callable[[], Any]) -> Callable[[], Any]:
    def noting() -> Any:
        token = _outermost.set(get_opaque_trace_state(convention="flax"))
        try:
            return fun()
        finally:
            _outermost.reset(token)

    return noting


def _within() -> bool:
    return get_opaque_trace_state(convention="flax") != _outermost.get()


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
    if equation.primitive is _mark:
        activation: Any = equation.outvars[0].aval
        shape = (*loops, *activation.shape)
        return Tap(params["name"], shape, len(loops) + params["mapped"], activation)
    if not (names := _names_in(equation)):
        return None
    kind = equation.primitive.name
    if kind not in _RUN or _is_out_of_reach(kind, params):
        raise TapError(_refusal(names[0], kind, params))
    if kind == "scan":
        loops = (*loops, params["length"])
    found = [_find(body, loops) for body in core.jaxprs_in_params(params)]
    return found if kind == "cond" else found[0]


def _refuse_hoisted(jaxpr: core.Jaxpr) -> None:
    """Refuses what may have run more often than it stands there.

    Where a program takes the gradient of a loop, JAX computes what is the same each time once.
    """
    loops = any(equation.primitive.name == "scan" for equation in _equations(jaxpr))
    for equation in _equations(jaxpr) if loops else ():
        params = equation.params
        if equation.primitive is _mark and params["differentiated"] and params["within"]:
            raise TapError(
                f"{params['name']} is called inside of a loop, or another transformation of JAX, "
                "through which the model itself takes a gradient: write that loop out in Python, "
                "or leave it out of `layers`"
            )


def _equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """All equations of a program, those inside of others too."""
    for equation in jaxpr.eqns:
        yield equation
        for body in core.jaxprs_in_params(equation.params):
            yield from _equations(body)


def _names_in(equation: core.JaxprEqn) -> list[str]:
    """The names of marks inside of an equation."""
    bodies = core.jaxprs_in_params(equation.params)
    inner = (each for body in bodies for each in _equations(body))
    return [each.params["name"] for each in inner if each.primitive is _mark]


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
                outputs = _RUN[equation.primitive.name](equation.params, inner, given)
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
    is_variable = lambda atom: isinstance(atom, core.Var)
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


def _run_inline(params: dict[str, Any], zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    (body,) = core.jaxprs_in_params(params)
    closed = next(value for value in params.values() if getattr(value, "jaxpr", None) is body)
    return _run(body, closed.consts, zeros, inputs)


def _run_checkpoint(params: dict[str, Any], zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    body = lambda zeros, inputs: _run(params["jaxpr"], (), zeros, inputs)
    options = {key: params[key] for key in ("prevent_cse", "policy")}
    return jax.checkpoint(body, **options)(zeros, inputs)


def _run_scan(params: dict[str, Any], zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    closed, constants, carried = params["jaxpr"], params["num_consts"], params["num_carry"]
    constant, carry, rows = (
        inputs[:constants],
        inputs[constants : constants + carried],
        inputs[constants + carried :],
    )

    def body(carry, row):
        zeros, rows = row
        outputs = _run(closed.jaxpr, closed.consts, zeros, [*constant, *carry, *rows])
        return outputs[:carried], outputs[carried:]

    options = {key: params[key] for key in ("length", "reverse", "unroll")}
    carry, stacked = jax.lax.scan(body, list(carry), (zeros, list(rows)), **options)
    return [*carry, *stacked]


def _run_cond(params: dict[str, Any], zeros: Any, inputs: Sequence[Any]) -> list[Any]:
    index, *operands = inputs

    def branch(number: int, closed: core.ClosedJaxpr) -> Callable[..., list[Any]]:
        return lambda zeros, *operands: _run(closed.jaxpr, closed.consts, zeros[number], operands)

    branches = [branch(*numbered) for numbered in enumerate(params["branches"])]
    return jax.lax.switch(index, branches, zeros, *operands)


_CHECKPOINTS = ("checkpoint", "remat", "remat2")
_RUN: dict[str, Callable[[dict[str, Any], Any, Sequence[Any]], list[Any]]] = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "core_call"), _run_inline),
    **dict.fromkeys(_CHECKPOINTS, _run_checkpoint),
    "scan": _run_scan,
    "cond": _run_cond,
}
