"""Per-example losses and Jacobian norms of a Flax Linen model, as a transformation."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import linen as nn
from flax.errors import ScopeCollectionNotFound
from jaxtyping import Array, Float

from har_jax import jacobian
from har_jax.axes import TapAxes
from har_jax.linen.layers import Filter, normalization_layers
from har_jax.linen.taps import find_taps
from har_jax.tapping.norms import loss_and_norm_of


class LossAndJacobianNorm(NamedTuple):
    """What a function made by :func:`loss_and_jacobian_norm` returns.

    Attributes:
      loss: ``[B]``, the per-example losses.
      norm: ``[B]``, R of every example, float32 or wider.
      outputs: The model's outputs.
      mutated: The collections that the model mutated; empty without ``mutable``.
      layer_norms: By module path, ``[B]``, the norm of that tap alone; ``[layers, B]``
        where a loop or ``vmap`` stacks layers; ``path[0]``, ``path[1]``, ... where a module
        has several.
    """

    loss: Float[Array, " B"]
    norm: Float[Array, " B"]
    outputs: Any
    mutated: Mapping[str, Any]
    layer_norms: dict[str, Float[Array, "... B"]]


def loss_and_jacobian_norm(
    apply: Callable[..., Any],
    layers: Filter = normalization_layers,
    *,
    reduction: jacobian.Reduction = "root_sum_square",
    derivative: jacobian.Derivative = "exact",
    in_axes: Any = 0,
    tap_axes: TapAxes = None,
) -> Callable[..., LossAndJacobianNorm]:
    r"""Makes a function that computes :math:`\ell_i` and :math:`R(x_i)` of a batch.

    .. math::

        R(x_i) = \Bigl( \sum_j \| \partial \ell_i / \partial h_i^{(j)} \|_F^2 \Bigr)^{1/2}

    over the activations :math:`h^{(j)}` that ``layers`` selects: equation in section 2.3
    of Cao et al. 2021. See :mod:`har_jax.jacobian` for what is guaranteed, and for what
    R means where BatchNorm makes the examples of a batch interact.

    Args:
      apply: ``model.apply`` of a Flax Linen model, or a function around it, or around
        several.
      layers: Which activations to tap: a filter ``(module, method_name) -> bool`` of the
        kind that Flax's ``capture_intermediates`` takes. Every run of a selected method is
        a layer of its own, whatever transformation of JAX or Flax it is inside of, and so
        is every array of a tuple that it returns; one that is in it twice is one layer.
      reduction: ``"root_sum_square"``, or ``"sum_of_norms"`` for :math:`\sum_j \|J_j\|_F`.
      derivative: How the result is differentiated. ``"exact"`` differentiates the gradients once
        more. ``"first_order"`` takes the gradient of plain training at activations that are moved
        along their own gradient, :math:`h_i + s_i g_i / \|g_i\|` where the objective is
        :math:`\sum_i (\ell_i + s_i R_i)`, which is that of the objective but for :math:`O(s^2)`
        (:mod:`har_jax.first_order`), at two thirds more than plain training and with its memory;
        no second derivative is taken. Behind ReLU and other activations with bends it is a
        regularizer of its own: the moved loss sees the bends that a step passes, and the exact
        derivative none. Where weights of examples stand outside of the loss, it takes one pass
        more. In bfloat16 it means nothing at strengths of 0.01 and below, which move activations by
        less than their rounding: in a small network (docs/design.md) the penalty's gradient is off
        by its own length there, by 0.4 of it at 0.03, and by 0.16 at 0.1 (in float32 by 0.06).
      in_axes: Which axis of which argument carries the batch: for positional ones as in
        ``jax.vmap``, or a mapping of positions and keywords to axes, such as
        ``{1: None, "table": None}``. What it does not speak of carries the batch on axis 0,
        but for arrays of rank 0.
      tap_axes: The batch axis of the taps, for a model that cannot be traced at twice its
        batch size: one for all, or by module path. Axes that loops and ``jax.vmap`` add
        are counted first, from the outermost.

    Returns:
      A function ``(per_example_loss, variables, *args, **kwargs)`` that runs
      ``apply(variables, *args, **kwargs)``, gives its outputs to ``per_example_loss``,
      which returns ``[B]`` losses, and returns a :class:`LossAndJacobianNorm`. It raises
      :class:`har_jax.TapError` if the layers cannot be tapped, ``ValueError`` if the
      losses are not of shape ``[B]`` or the inputs do not agree on the batch, and
      ``TypeError`` if the first two arguments are of the wrong kind. To weigh
      examples, or to mask some with weight 0, return weighted losses: R is then that of the
      weighted loss.

    Example:
      >>> import jax, optax
      >>> from jax import numpy as jnp
      >>> from flax import linen as nn
      >>> model = nn.Sequential([nn.Dense(8), nn.LayerNorm(), nn.relu, nn.Dense(3)])
      >>> images, labels = jnp.ones((4, 5)), jnp.array([0, 1, 2, 0])
      >>> variables = model.init(jax.random.key(0), images)
      >>> loss_and_norm = loss_and_jacobian_norm(model.apply)
      >>> def objective(params, strength):
      ...     cross_entropy = lambda logits: (
      ...         optax.softmax_cross_entropy_with_integer_labels(logits, labels))
      ...     r = loss_and_norm(cross_entropy, {"params": params}, images)
      ...     return jnp.mean(r.loss + strength * r.norm)
      >>> gradients = jax.jit(jax.grad(objective))(variables["params"], jnp.full(4, 0.1))

    References:
      Cao et al., `Heteroskedastic and Imbalanced Deep Learning with Adaptive
      Regularization <https://arxiv.org/abs/2006.15766>`_, ICLR 2021.

      Of first order, with steps in the weights: Zhao, Zhang, Hu, `Penalizing Gradient Norm for
      Efficiently Improving Generalization <https://arxiv.org/abs/2202.03599>`_, 2022; Foret et
      al., `Sharpness-Aware Minimization <https://arxiv.org/abs/2010.01412>`_, 2021.
    """

    _check_apply(apply)

    def loss_and_norm(
        per_example_loss: Callable[[Any], Float[Array, " B"]],
        variables: Mapping[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> LossAndJacobianNorm:
        _check_arguments(per_example_loss, variables)
        try:
            program, axes = find_taps(
                apply, layers, variables, args, kwargs, in_axes=in_axes, tap_axes=tap_axes
            )
        except ScopeCollectionNotFound as error:
            if "params" not in variables:
                error.add_note('variables have no collection "params": give {"params": params}')
            raise
        loss, norm, layer_norms, (outputs, mutated) = loss_and_norm_of(
            program,
            axes,
            lambda result: (per_example_loss(result[0]), result),
            reduction=reduction,
            derivative=derivative,
        )
        return LossAndJacobianNorm(loss, norm, outputs, mutated, layer_norms)

    return loss_and_norm


def _check_arguments(per_example_loss: Any, variables: Any) -> None:
    if not callable(per_example_loss):
        place, given, what = "first", per_example_loss, "a function from outputs to losses"
    elif callable(variables) or isinstance(variables, (jax.Array, np.ndarray)):
        place, given, what = "second", variables, "variables by collection"
    else:
        return
    raise TypeError(
        f"the {place} argument is a {type(given).__name__} in place of {what}: write "
        "loss_and_norm(per_example_loss, variables, inputs)"
    )


def _check_apply(apply: Any) -> None:
    if isinstance(apply, nn.Module):
        raise TypeError(
            f"a {type(apply).__name__} is given in place of its `apply`: write "
            "loss_and_jacobian_norm(model.apply)"
        )
    nnx = sys.modules.get("flax.nnx")  # whoever has a module of it has imported it
    if nnx is not None and isinstance(apply, nnx.Module):
        raise TypeError(
            f"{type(apply).__name__} is an NNX module, and this function is for Flax Linen: write "
            "har_jax.nnx.loss_and_jacobian_norm()(per_example_loss, model, inputs)"
        )
    if not callable(apply):
        raise TypeError(f"apply={apply!r} is no function: give model.apply")
