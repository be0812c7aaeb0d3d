r"""Per-example losses and all-layer Jacobian norms, from one vector-Jacobian product.

With :math:`h^{(j)}` the activations of the tapped layers, HAR penalizes (Cao et
al. 2021, section 2.3)

.. math::

    R(x) = \Bigl( \sum_j \| \partial \ell(f(x), y) / \partial h^{(j)} \|_F^2 \Bigr)^{1/2}

The gradient with respect to an activation is the gradient with respect to a zero
added to it. This module knows nothing of networks: whoever can write their forward
pass as a function of such zeros (``perturbations``) can use it, in any JAX library.
:mod:`har_jax.linen` does that for Flax Linen.

Guarantees:

* one forward and one backward pass; the result is differentiable again in reverse
  mode, so it works through ``jax.custom_vjp`` functions;
* squares are summed in float32 at least, whatever the activations' dtype: norms below
  about 1e-19 come out as 0, above about 1e19 as infinity, in float32;
* an example whose gradients are all zero has norm 0, with gradient 0, not NaN; what is NaN
  stays NaN;
* gradients themselves have the activations' dtype: in float16 those below 6e-8 are 0 and those
  above 65,504 infinite, so that R is 0 of a loss that is scaled by 1e-8, and NaN at 1e6;
* a perturbation that the function does not add to anything has norm 0, as one that the loss does
  not depend on has;
* row ``i`` of a perturbation is taken to belong to example ``i``: activations whose rows
  are sorted, routed or shuffled between examples must not be tapped;
* with ``derivative="first_order"`` the values are the same, and the gradient of
  :math:`\sum_i (\ell_i + s_i R_i)` is that of :math:`\sum_i \ell_i(h_i + s_i g_i / \|g_i\|)`,
  :math:`g_i` being the gradient with respect to :math:`h_i`, taken as a constant: see
  :mod:`har_jax.first_order`;
* where examples do not interact (running statistics, LayerNorm, GroupNorm) row ``i``
  is the norm of ``d loss[i] / d h[i]``; where they do (BatchNorm in training) it is
  that of ``d sum(loss) / d h[i]``, as in the authors' code.
"""

import contextlib
import pathlib
import traceback
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from har_jax.first_order import differentiate_first_order, has_first_derivative
from har_jax.precision import at_least_float32

Reduction = Literal["root_sum_square", "sum_of_norms"]
REDUCTIONS: tuple[str, ...] = get_args(Reduction)
Derivative = Literal["exact", "first_order"]
DERIVATIVES: tuple[str, ...] = get_args(Derivative)


class Axes(NamedTuple):
    """Which axes of a perturbation index examples and which index layers.

    Attributes:
      batch: The axis along which examples lie.
      layers: The axes along which calls are stacked, as a ``scan`` over layers or over
        time stacks them; every index along them is a layer :math:`h^{(j)}` of its own.
    """

    batch: int = 0
    layers: tuple[int, ...] = ()


class LossAndNorm(NamedTuple):
    """What :func:`loss_and_perturbation_norm` returns.

    Attributes:
      loss: ``[B]``, the per-example losses.
      norm: ``[B]``, R of every example, float32 or wider.
      layer_norms: A tree as the perturbations', with leaves ``[..., B]``: the
        norm of every layer by itself.
      aux: The second value that ``fun`` returned.
    """

    loss: Float[Array, " B"]
    norm: Float[Array, " B"]
    layer_norms: PyTree[Float[Array, "... B"]]
    aux: Any


def loss_and_perturbation_norm(
    fun: Callable[[PyTree], tuple[Float[Array, " B"], Any]],
    perturbations: PyTree[Float[Array, "..."]],
    axes: PyTree[int | Axes] = 0,
    *,
    reduction: Reduction = "root_sum_square",
    derivative: Derivative = "exact",
) -> LossAndNorm:
    r"""Computes per-example losses and the norm of their gradients at the taps.

    ``root_sum_square`` is :math:`(\sum_j \|J_j\|_F^2)^{1/2}` (section 2.3 of Cao et al.
    2021); ``sum_of_norms`` is :math:`\sum_j \|J_j\|_F` (their appendix B, and what their
    released code computes, with a factor 1/B that is not here).

    To weigh the examples or to mask some, return weighted losses from ``fun``.

    Args:
      fun: Maps perturbations to ``(loss, aux)`` with ``loss`` of shape ``[B]``, floating.
        It adds every perturbation to the activation that it belongs to.
      perturbations: Zeros, a tree of floating arrays shaped as the tapped activations.
      axes: A prefix of the perturbations' tree, as in ``jax.vmap``: per leaf its batch
        axis, or :class:`Axes` where layers are stacked too.
      reduction: ``"root_sum_square"`` or ``"sum_of_norms"``.
      derivative: How the result is differentiated: ``"exact"``, by a derivative of the gradients,
        or ``"first_order"``, as plain training at activations that are moved along theirs. The
        values are the same.

    Returns:
      A :class:`LossAndNorm`.

    Raises:
      ValueError: if the reduction or the derivative is unknown, if there are no perturbations, if
        the loss is not of shape ``[B]`` or if an axis does not have size B; and under a gradient,
        where the exact derivative needs a second one that a function in ``fun`` does not have.

    Example:
      >>> weight, x, target = jnp.array([[2.0], [1.0]]), jnp.eye(2), jnp.array([1.0, 1.0])
      >>> def fun(perturbation):
      ...     hidden = x + perturbation
      ...     return 0.5 * ((hidden @ weight)[:, 0] - target) ** 2, None
      >>> loss_and_perturbation_norm(fun, jnp.zeros((2, 2))).norm  # |residual| * |weight|
      Array([2.236068, 0.      ], dtype=float32)
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction={reduction!r} is unknown: take one of {', '.join(REDUCTIONS)}")
    if derivative not in DERIVATIVES:
        raise ValueError(
            f"derivative={derivative!r} is unknown: take one of {', '.join(DERIVATIVES)}"
        )
    leaves = jax.tree.leaves(perturbations)
    if not leaves:
        raise ValueError("there are no perturbations: a norm over no layers would be zero")
    if not all(jnp.issubdtype(jnp.result_type(leaf), jnp.inexact) for leaf in leaves):
        raise ValueError("the perturbations must be floating: nothing else has a gradient")
    full_axes = jax.tree.broadcast(axes, perturbations, is_leaf=_is_axes)
    batch_size = 0

    def checked(perturbations: PyTree) -> tuple[Float[Array, " B"], Any]:
        nonlocal batch_size
        loss, aux = fun(perturbations)
        check_loss(loss)
        batch_size = len(loss)
        return loss, aux

    def norms_of(gradients: PyTree) -> tuple[Float[Array, " B"], PyTree[Float[Array, "... B"]]]:
        squares = jax.tree_util.tree_map_with_path(
            lambda path, gradient, axis: _squared_norms(gradient, axis, batch_size, path),
            gradients,
            full_axes,
        )
        layer_norms = jax.tree.map(_safe_sqrt, squares)
        if reduction == "root_sum_square":
            return _safe_sqrt(_total(squares)), layer_norms
        return _total(layer_norms), layer_norms

    if derivative == "first_order":
        loss, (norm, layer_norms), aux = differentiate_first_order(checked, perturbations, norms_of)
        return LossAndNorm(loss, norm, layer_norms, aux)
    # Where no second derivative is found after this call, as under grad of jit, JAX raises its own
    # error, and shows the lines that the operation comes from, this one among them.
    loss, pull, aux = jax.vjp(checked, perturbations, has_aux=True)  # or derivative="first_order"
    try:
        (gradients,) = pull(jnp.ones_like(loss))
    except jax.errors.UnexpectedTracerError:  # which is a TypeError, of another kind of mistake
        raise
    except (NotImplementedError, TypeError, ValueError) as error:
        if not has_first_derivative(checked, perturbations):
            raise
        raise ValueError(
            f"the gradient{_inside(error)} cannot be differentiated once more "
            f"({str(error).splitlines()[0]}): take "
            'derivative="first_order", which needs no second derivative'
        ) from error
    norm, layer_norms = norms_of(gradients)
    return LossAndNorm(loss, norm, layer_norms, aux)


def _inside(error: Exception) -> str:
    """The innermost function below this module's, and not JAX's, that raised an error."""
    internal = {pathlib.Path(jax.__file__).parent, pathlib.Path(contextlib.__file__)}
    of_jax = lambda path: not internal.isdisjoint((path, *path.parents))
    _, *frames = traceback.extract_tb(error.__traceback__)
    given = [frame for frame in frames if not of_jax(pathlib.Path(frame.filename))]
    return f" of {given[-1].name} ({given[-1].filename}:{given[-1].lineno})" if given else ""


def check_loss(loss: Any) -> None:
    if not isinstance(loss, jax.Array):
        found = f"a {type(loss).__name__}"
    elif loss.ndim != 1 or not jnp.issubdtype(loss.dtype, jnp.floating):
        found = f"{loss.dtype}{list(loss.shape)}"
    else:
        return
    raise ValueError(
        f"the loss must hold one floating number per example, shape [B]; it is {found}: sum or "
        "average its other axes, and return nothing beside it"
    )


def _is_axes(value: Any) -> bool:
    return isinstance(value, Axes)


def _squared_norms(gradient: Array, axes: int | Axes, batch_size: int, path: Any) -> Array:
    """The squared norm of each layer and example: ``[..., B]``."""
    batch, layers = axes if isinstance(axes, Axes) else (axes, ())
    kept = (*layers, batch)
    name = jax.tree_util.keystr(path, simple=True, separator="/") or "that is given"
    if any(not -gradient.ndim <= axis < gradient.ndim for axis in kept):
        raise ValueError(
            f"the tap {name} has shape {list(gradient.shape)}, and no axes {list(kept)} that are "
            "to index examples and layers"
        )
    if gradient.shape[batch] != batch_size:
        raise ValueError(
            f"the loss has {batch_size} entries, and axis {batch} of the tap {name}, of shape "
            f"{list(gradient.shape)}, {gradient.shape[batch]}: return one loss for each example"
        )
    moved = jnp.moveaxis(gradient, kept, range(len(kept)))
    wide = moved.astype(at_least_float32(moved.dtype))
    squares = jnp.square(wide.real) + jnp.square(wide.imag) if jnp.iscomplexobj(wide) else wide**2
    return jnp.sum(squares, axis=tuple(range(len(kept), squares.ndim)))


def _total(per_layer: PyTree[Float[Array, "... B"]]) -> Float[Array, " B"]:
    total = lambda leaf: jnp.sum(leaf, axis=tuple(range(leaf.ndim - 1)))
    return jax.tree.reduce(jnp.add, jax.tree.map(total, per_layer))


def _safe_sqrt(x: Array) -> Array:
    """The square root, with derivative 0 at 0. Guarding the result alone leaves NaN there."""
    zero = x == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, x)))
