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

Where all :math:`a_k` are the same, as of a mean, the second term is nothing with
:math:`\bar a = a`: the gradient is that of plain training at activations that are moved along their
own gradient, row :math:`i` by :math:`c_i / a`, which is the example's strength. Where they differ,
and the examples of a batch depend on each other, no single pass has this gradient: it takes the
second term, and with it is right for any :math:`a_k`. Whether they differ is asked while tracing
(:mod:`har_jax.first_order.uniformity`): what is not known to be the same takes both passes. To
decide it when
the program runs would take a branch or a loop around a whole pass, in which XLA:CPU runs
convolutions many times slower, and in which devices that decide differently wait for each other.

Guarantees:

* values are those of one forward pass and a backward one for activations, at activations as they
  are; statistics, keys and all else that a pass has are those of it, in every pass;
* no second derivative is taken;
* gradients of losses and of ``aux`` without norms are exact, and those of norms have an error of
  the order of the step, which halves with it, where the loss is smooth in the activations;
* with bends, as ReLU has, the moved loss sees those that a step passes, and the exact derivative,
  which is piecewise constant there, does not: this is then a regularizer of its own;
* rows whose gradients are all zero are not moved, and have no NaN;
* of a loss with a factor that the program knows to be the same for all, and that turns out to be 0
  where that of a norm is not, the gradient is NaN. To penalize norms alone, leave the loss out.

There is no floor on the step. In float32 rounding is a hundredth of the penalty's gradient at a
step of 1e-4, and half of it at 1e-6; but that is a millionth of the whole gradient, whose own
rounding is no less, and longer steps, scaled back, would take a second pass. In bfloat16 it is all
of it at 1e-2, and a sixth to a third at 0.1 in small networks (``benchmarks/derivatives.py``).

Related are gradient-norm penalties by finite differences in the space of the weights (Zhao, Zhang,
Hu 2022, arXiv 2202.03599), and SAM (Foret et al. 2021, arXiv 2010.01412).
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float, PyTree

from har_jax.first_order.hoisting import hoist, hoist_gradient
from har_jax.first_order.uniformity import axes_of_collectives, known_equal


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
      ValueError: if a ``jax.custom_jvp`` or ``custom_vjp`` function in ``fun`` has a rule that
        closes over values that are computed, which a trace does not keep.
    """
    arrays = _Arrays(fun)
    program = hoist(arrays, perturbations)
    axes = axes_of_collectives(program.program)

    def gradients_too(constants: Sequence[Any], perturbations: PyTree) -> tuple[Value, PyTree]:
        loss, pullback, aux = jax.vjp(
            lambda given: program.run(constants, given), perturbations, has_aux=True
        )
        (gradients,) = pullback(jnp.ones_like(loss))
        return Value(loss, measure(gradients), aux), gradients

    unmoved = hoist_gradient(gradients_too, program.constants, perturbations)
    value = jax.custom_vjp(lambda *arguments: unmoved.run(unmoved.constants, *arguments)[0])

    def forward(*arguments: PyTree):
        values, wanted = (
            jax.tree.map(operator.attrgetter(name), arguments) for name in ("value", "perturbed")
        )
        result, gradients = unmoved.run(unmoved.constants, *values)
        # Whether an argument is differentiated is kept as where a None stands.
        own, fixed = (
            jax.tree.map(
                lambda x, is_own, which=which: x if is_own == which else None, values, wanted
            )
            for which in (True, False)
        )
        return result, (own, fixed, gradients, result.loss)

    def backward(residuals: Any, cotangents: Value):
        own, fixed, gradients, loss = residuals
        norms = _given(jax.tree.leaves(cotangents.norms))
        aux = _given(cotangents.aux)

        def gradient_of(loss: Array, aux: dict[int, Array], move: PyTree = None) -> PyTree:
            """Cotangents of the arguments, for those of losses and aux, at moved activations."""

            def outputs(own: PyTree):
                constants, perturbations = _merged(own, fixed)
                if move is not None:
                    perturbations = jax.tree.map(jnp.add, perturbations, move)
                losses, others = program.run(constants, perturbations)
                return losses, {i: others[i] for i in aux}

            _, pullback = jax.vjp(outputs, own)
            return pullback((loss, aux))[0]

        def direction(scale: Callable[[Array], Array]) -> PyTree:
            """The direction, for cotangents of the norms that are scaled."""

            def given(gradients: PyTree) -> dict[int, Array]:
                leaves = jax.tree.leaves(measure(gradients))
                return {i: leaves[i] for i in norms}

            _, pullback = jax.vjp(given, gradients)
            return pullback(jax.tree.map(scale, norms))[0]

        nothing = jnp.zeros_like(loss)
        a = nothing if _is_zero(cotangents.loss) else cotangents.loss
        passes = []
        if norms and not _is_zero(cotangents.loss) and known_equal(a, axes):
            # 0/0 is 0: an objective that is multiplied by 0. A loss that alone is, is not served.
            over = lambda c: c / jnp.where(c == 0, 1, a.reshape((1,) * (c.ndim - 1) + a.shape))
            passes.append(gradient_of(a, {}, direction(over)))
            a = nothing
        elif norms:
            common = _common(a, norms, axes, step_alone(perturbations))
            everywhere = nothing + common.astype(a.dtype)
            passes.append(gradient_of(everywhere, {}, direction(lambda c: c / common)))
            a = a - everywhere
        if aux or a is not nothing:
            passes.append(gradient_of(a, aux))
        return jax.tree.map(lambda *each: sum(each[1:], each[0]), *passes)

    value.defvjp(forward, backward, symbolic_zeros=True)
    result = value(program.constants, perturbations)
    return result._replace(aux=arrays.restored(result.aux))


class _Arrays:
    """A function whose ``aux`` is a list of its arrays; what else it holds is kept here."""

    def __init__(self, fun: Callable[[PyTree], tuple[Array, Any]]):
        self._fun = fun

    def __call__(self, perturbations: PyTree) -> tuple[Array, list[Array]]:
        loss, aux = self._fun(perturbations)
        leaves, self._tree = jax.tree.flatten(aux)
        is_array = [isinstance(leaf, jax.Array) for leaf in leaves]
        self._rest = [
            None if kept else (leaf,) for leaf, kept in zip(leaves, is_array, strict=True)
        ]
        return loss, [leaf for leaf, kept in zip(leaves, is_array, strict=True) if kept]

    def restored(self, arrays: Sequence[Array]) -> Any:
        given = iter(arrays)
        leaves = [next(given) if rest is None else rest[0] for rest in self._rest]
        return jax.tree.unflatten(self._tree, leaves)


def has_first_derivative(fun: Callable[[PyTree], tuple[Array, Any]], at: PyTree) -> bool:
    """Whether the gradient of the losses can be taken, where that of the gradient could not."""
    try:
        program = hoist(_Arrays(fun), at)

        def gradient(constants: Sequence[Any]) -> PyTree:
            loss, pullback, _ = jax.vjp(
                lambda given: program.run(constants, given), at, has_aux=True
            )
            return pullback(jnp.ones_like(loss))

        jax.eval_shape(gradient, program.constants)
    except Exception:  # of any kind that a rule can raise
        return False
    return True


def _merged(one: PyTree, other: PyTree) -> PyTree:
    """A tree of two that have None where the other has a leaf."""
    return jax.tree.map(
        lambda x, y: y if x is None else x, one, other, is_leaf=lambda node: node is None
    )


def step_alone(perturbations: PyTree[Array]) -> float:
    """How far the row that counts most is moved for norms alone, where no loss says it.

    With less, rounding grows, and with more what a difference is off a derivative. Four times the
    square root of the activations' precision is 0.35 in bfloat16, 0.0014 in float32.
    """
    precisions = [jnp.finfo(leaf.dtype).eps for leaf in jax.tree.leaves(perturbations)]
    return 4 * math.sqrt(max(map(float, precisions)))


def _common(a: Array, norms: PyTree[Array], axes: tuple[str, ...], step: float) -> Array:
    """The weight of the moved pass: no row goes further than by its own norm's and loss's."""
    most = lambda x: jnp.max(jnp.abs(x), initial=0.0)
    loss = most(a)
    norm = jax.tree.reduce(jnp.maximum, jax.tree.map(most, norms))
    if axes:
        loss, norm = jax.lax.pmax((loss, norm), axes)
    wide = loss.astype(norm.dtype)
    alone = jnp.where(norm > 0, norm / step, 1)
    return jnp.where(wide == 0, alone, wide)


def _given(cotangents: Sequence[Any]) -> dict[int, Array]:
    """By position, those that are not known to be zero."""
    return {i: each for i, each in enumerate(cotangents) if not _is_zero(each)}


def _is_zero(cotangent: Any) -> bool:
    return isinstance(cotangent, SymbolicZero)
