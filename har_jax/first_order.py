r"""Gradients of losses and of their norms without second derivatives: plain training, elsewhere.

Let :math:`S = \sum_k \ell_k`, :math:`g = \partial S / \partial h` at all taps, and :math:`N(g)` any
norms of it, such as :math:`R`. An objective gives the returned losses the cotangents :math:`a_k`
and the norms the cotangents :math:`c`. With the direction :math:`v = c \cdot \partial N / \partial
g`, which for :math:`R_i = \|g_i\|` is :math:`c_i g_i / \|g_i\|`,

.. math::

    c \cdot \nabla_\theta N = \nabla_\theta \, (v \cdot \partial S / \partial h)
        = \frac{1}{\epsilon} \bigl( \nabla_\theta S(h + \epsilon v) - \nabla_\theta S(h) \bigr)
        + O(\epsilon)

and so, with :math:`\bar a = 1 / \epsilon`, where :math:`v` is taken as a constant,

.. math::

    \nabla_\theta \Bigl( \sum_k a_k \ell_k + c \cdot N \Bigr) \approx
        \bar a \, \nabla_\theta S(h + v / \bar a)
        + \nabla_\theta \sum_k (a_k - \bar a) \, \ell_k(h)

Where all :math:`a_k` are the same, as of a mean, the second term is nothing with :math:`\bar a = a`:
the gradient is that of plain training at activations that are moved along their own gradient, row
:math:`i` by :math:`c_i / a`, which is the example's strength. Where they differ, and the examples of
a batch depend on each other, no single pass has this gradient: it takes the second term, and with
it is right for any :math:`a_k`. Whether they differ is asked while tracing
(:mod:`har_jax.uniformity`): what is not known to be the same takes both passes.

Related are gradient-norm penalties by finite differences in the space of the weights (Zhao, Zhang,
Hu 2022, arXiv 2202.03599), and SAM (Foret et al. 2021, arXiv 2010.01412).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.extend import core
from jaxtyping import Array, Float, PyTree

from har_jax.uniformity import axes_of_collectives, known_equal

# How far the row that counts most is moved for the gradient of norms alone, where nothing says it:
# in float32 a tenth of it has ten times the rounding, and ten times it ten times the curvature.
STEP = 0.01


class Value(NamedTuple):
    """What :func:`differentiate_first_order` returns.

    Attributes:
      loss: ``[B]``.
      norms: What ``measure`` returned.
      aux: The second value that ``fun`` returned.
    """

    loss: Float[Array, " B"]
    norms: Any
    aux: Any


def differentiate_first_order(
    fun: Callable[[PyTree], tuple[Float[Array, " B"], Any]],
    perturbations: PyTree[Float[Array, "..."]],
    measure: Callable[[PyTree], PyTree[Float[Array, "... B"]]],
) -> Value:
    """Losses and norms of their gradients, as they are; their own gradients are of first order.

    Everything that ``fun`` closes over has a gradient. That of the losses and of the norms is the
    above; that of ``aux`` is exact, and costs the second pass. What has no gradient costs nothing.

    Args:
      fun: Maps perturbations to ``(loss, aux)``. It is traced once, and its trace is run.
      perturbations: What is added to the activations.
      measure: Maps gradients, a tree as the perturbations, to norms whose last axis indexes
        examples; differentiable.

    Raises:
      ValueError: if a ``jax.custom_jvp`` or ``custom_vjp`` function in ``fun`` closes over values
        that ``fun`` computes, which a trace does not keep.
    """
    program = _trace(fun, perturbations)
    constants, leaves = program.constants, jax.tree.leaves(perturbations)

    def unmoved(arguments: Sequence[Any]) -> tuple[Value, list[Array]]:
        constants, leaves = arguments[: len(program.constants)], arguments[len(program.constants) :]
        try:
            loss, pullback, aux = jax.vjp(
                lambda leaves: program.run([*constants, *leaves]), leaves, has_aux=True
            )
        except jax.errors.UnexpectedTracerError as error:
            raise ValueError(
                "a jax.custom_jvp or custom_vjp function of the network closes over values that "
                "the network computes, which a trace does not keep: give them to it as arguments, "
                'or take derivative="exact"'
            ) from error
        (gradients,) = pullback(jnp.ones_like(loss))
        norms = measure(jax.tree.unflatten(program.tree, gradients))
        return Value(loss, norms, aux), gradients

    value = jax.custom_vjp(lambda *arguments: unmoved(arguments)[0])

    def forward(*arguments: Any):
        values = [argument.value for argument in arguments]
        result, gradients = unmoved(values)
        # Whether an argument is differentiated is kept as where a None stands.
        split = [(None, x.value) if not x.perturbed else (x.value, None) for x in arguments]
        return result, (split, gradients)

    def backward(residuals: Any, cotangents: Value):
        split, gradients = residuals
        wanted = [own for own, _ in split]

        def gradient_of(moves: Sequence[Array] | None, loss: Any, aux: Sequence[Any] = ()):
            """Cotangents of the arguments, for those of the losses and aux, where it is moved."""
            used = [i for i, cotangent in enumerate(aux) if not _is_zero(cotangent)]

            def outputs(wanted):
                arguments = [
                    fixed if own is None else own
                    for own, (_, fixed) in zip(wanted, split, strict=True)
                ]
                if moves is not None:
                    first = len(arguments) - len(moves)
                    moved = map(jnp.add, arguments[first:], moves)
                    arguments = [*arguments[:first], *moved]
                losses, others = program.run(arguments)
                return losses, [others[i] for i in used]

            _, pullback = jax.vjp(outputs, wanted)
            return pullback((loss, [aux[i] for i in used]))[0]

        def along(scale: Callable[[Array], Array]) -> list[Array]:
            """The direction, for cotangents of the norms that are scaled."""
            cotangent = jax.tree.map(scale, jax.tree.map(_instantiated, cotangents.norms))
            _, pullback = jax.vjp(measure, jax.tree.unflatten(program.tree, gradients))
            return jax.tree.leaves(pullback(cotangent)[0])

        results = []
        a, aux = _instantiated(cotangents.loss), cotangents.aux
        plain = all(map(_is_zero, jax.tree.leaves(cotangents.norms)))
        if plain:
            if not _is_zero(cotangents.loss) or not all(map(_is_zero, aux)):
                results.append(gradient_of(None, a, aux))
        elif not _is_zero(cotangents.loss) and known_equal(a, program.axes):
            # 0/0 is 0: an objective that is multiplied by 0. A loss that alone is, is not served.
            over = lambda c: c / jnp.where(c == 0, 1, a.reshape((1,) * (c.ndim - 1) + a.shape))
            results.append(gradient_of(along(over), a))
            if not all(map(_is_zero, aux)):
                results.append(gradient_of(None, jnp.zeros_like(a), aux))
        else:
            common = _common(a, jax.tree.map(_instantiated, cotangents.norms), program.axes)
            everywhere = jnp.zeros_like(a) + common.astype(a.dtype)
            results.append(gradient_of(along(lambda c: c / common), everywhere))
            results.append(gradient_of(None, a - everywhere, aux))
        if not results:
            return (None,) * len(split)
        return tuple(
            None if each[0] is None else sum(each[1:], each[0])
            for each in zip(*results, strict=True)
        )

    value.defvjp(forward, backward, symbolic_zeros=True)
    result = value(*constants, *leaves)
    return result._replace(aux=program.restore(result.aux))


class _Program(NamedTuple):
    """A traced function.

    Attributes:
      constants: What it closes over.
      run: Maps constants and leaves of the perturbations to ``(loss, arrays of aux)``.
      restore: Makes ``aux`` of its arrays.
      tree: Of the perturbations.
      axes: The mapped axes along which its examples may depend on each other.
    """

    constants: list[Any]
    run: Callable[[Sequence[Any]], tuple[Array, list[Array]]]
    restore: Callable[[Sequence[Array]], Any]
    tree: Any
    axes: tuple[str, ...]


def _trace(fun: Callable[[PyTree], tuple[Array, Any]], perturbations: PyTree) -> _Program:
    rest: list[Any] = []
    aux_tree = None

    def arrays(perturbations: PyTree) -> list[Array]:
        nonlocal aux_tree
        loss, aux = fun(perturbations)
        leaves, aux_tree = jax.tree.flatten(aux)
        rest[:] = [None if isinstance(leaf, jax.Array) else (leaf,) for leaf in leaves]
        return [loss, *(leaf for leaf in leaves if isinstance(leaf, jax.Array))]

    closed = jax.make_jaxpr(arrays)(perturbations)
    # Integers such as labels and keys too, which jax.closure_convert leaves behind.
    jaxpr = closed.jaxpr.replace(
        constvars=[], invars=[*closed.jaxpr.constvars, *closed.jaxpr.invars]
    )
    whole = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, ()))

    def run(arguments: Sequence[Any]) -> tuple[Array, list[Array]]:
        loss, *aux = whole(*arguments)
        return loss, aux

    def restore(arrays: Sequence[Array]) -> Any:
        given = iter(arrays)
        leaves = [next(given) if kept is None else kept[0] for kept in rest]
        return jax.tree.unflatten(aux_tree, leaves)

    return _Program(
        list(closed.consts),
        run,
        restore,
        jax.tree.structure(perturbations),
        axes_of_collectives(jaxpr),
    )


def _common(a: Array, norms: PyTree[Array], axes: tuple[str, ...]) -> Array:
    """The weight of the moved pass: no row goes further than by its own norm's and loss's."""
    most = lambda x: jnp.max(jnp.abs(x), initial=0.0)
    loss = most(a)
    norm = jax.tree.reduce(jnp.maximum, jax.tree.map(most, norms))
    if axes:
        loss, norm = jax.lax.pmax((loss, norm), axes)
    wide = loss.astype(norm.dtype)
    alone = jnp.where(norm > 0, norm / STEP, 1)
    return jnp.where(wide == 0, alone, wide)


def _is_zero(cotangent: Any) -> bool:
    return isinstance(cotangent, SymbolicZero)


def _instantiated(cotangent: Any) -> Array:
    if _is_zero(cotangent):
        return jnp.zeros(cotangent.shape, cotangent.dtype)
    return cotangent
