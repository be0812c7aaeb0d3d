"""Per-example losses and Jacobian norms of a Flax NNX model, as a transformation."""

from collections.abc import Callable
from typing import Any, NamedTuple

from flax import nnx
from jaxtyping import Array, Float

from har_jax import jacobian
from har_jax.axes import TapAxes
from har_jax.nnx.layers import Filter, normalization_layers
from har_jax.nnx.state import update
from har_jax.nnx.taps import find_taps
from har_jax.tapping.norms import loss_and_norm_of


class LossAndJacobianNorm(NamedTuple):
    """What a function made by :func:`loss_and_jacobian_norm` returns.

    Attributes:
      loss: ``[B]``, the per-example losses.
      norm: ``[B]``, R of every example, float32 or wider.
      outputs: The model's outputs.
      layer_norms: By module path, ``[B]``, the norm of that tap alone; ``[layers, B]``
        where a loop or ``vmap`` stacks layers; ``path[0]``, ``path[1]``, ... where a module
        has several.
    """

    loss: Float[Array, " B"]
    norm: Float[Array, " B"]
    outputs: Any
    layer_norms: dict[str, Float[Array, "... B"]]


def loss_and_jacobian_norm(
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

    What the model's call changes, such as a BatchNorm's statistics or the counts of its Rngs, is
    changed in the model, and in NNX objects among its arguments, once, as by a call.

    Args:
      layers: Which modules to tap: a filter ``(path, module) -> bool`` of what ``nnx.iter_modules``
        yields of the model, in which a module that lies at several paths has the first of them.
        Every run of a selected module is a layer of its own, whatever transformation of JAX or
        NNX it is inside of, and so is every array of a tuple that it returns; one that is in it
        twice is one layer. Only ``module(x)`` is a call of a module: what its other methods return
        is not tapped, and neither is ``Block.__call__(module, x)``.
      reduction: ``"root_sum_square"``, or ``"sum_of_norms"`` for :math:`\sum_j \|J_j\|_F`.
      derivative: How the result is differentiated: ``"exact"`` or ``"first_order"``, as
        :func:`har_jax.loss_and_jacobian_norm` says of Linen.
      in_axes: Which axis of which argument carries the batch: for positional ones as in
        ``jax.vmap``, or a mapping of positions and keywords to axes, such as
        ``{1: None, "table": None}``. What it does not speak of carries the batch on axis 0,
        but for arrays of rank 0 and NNX objects.
      tap_axes: The batch axis of the taps, for a model that cannot be traced at twice its
        batch size: one for all, or by module path (``{"encoder/norm": 1}``). Axes that loops and
        ``jax.vmap`` add are counted first, from the outermost.

    Returns:
      A function ``(per_example_loss, model, *args, **kwargs)`` that runs
      ``model(*args, **kwargs)``, gives its outputs to ``per_example_loss``, which returns ``[B]``
      losses, and returns a :class:`LossAndJacobianNorm`. It raises
      :class:`har_jax.TapError` if the modules cannot be tapped, if one that is selected is not
      called, or if the call changes an attribute that is neither a Variable nor an array, and
      ``ValueError`` if the losses are not of shape ``[B]`` or the inputs do not agree on the batch.
      To weigh examples, or to mask some with weight 0, return weighted losses: R is then that of
      the weighted loss. Several models are a module that has them and calls them.

    Example:
      >>> import optax
      >>> from flax import nnx
      >>> from jax import numpy as jnp
      >>> rngs = nnx.Rngs(0)
      >>> model = nnx.Sequential(nnx.Linear(5, 8, rngs=rngs), nnx.BatchNorm(8, rngs=rngs),
      ...     nnx.relu, nnx.Linear(8, 3, rngs=rngs))
      >>> images, labels = jnp.ones((4, 5)), jnp.array([0, 1, 2, 0])
      >>> loss_and_norm = loss_and_jacobian_norm()
      >>> @nnx.jit
      ... def gradients(model, strength):
      ...     cross_entropy = lambda logits: (
      ...         optax.softmax_cross_entropy_with_integer_labels(logits, labels))
      ...     def objective(model):
      ...         r = loss_and_norm(cross_entropy, model, images)
      ...         return jnp.mean(r.loss + strength * r.norm)
      ...     return nnx.grad(objective)(model)
      >>> state = gradients(model, jnp.full(4, 0.1))  # of parameters; statistics are updated

    References:
      Cao et al., `Heteroskedastic and Imbalanced Deep Learning with Adaptive
      Regularization <https://arxiv.org/abs/2006.15766>`_, ICLR 2021.
    """
    if isinstance(layers, nnx.Module):
        raise TypeError(
            f"a {type(layers).__name__} is given in place of a filter: write "
            "loss_and_jacobian_norm()(per_example_loss, model, inputs)"
        )

    def loss_and_norm(
        per_example_loss: Callable[[Any], Float[Array, " B"]],
        model: nnx.Module,
        *args: Any,
        **kwargs: Any,
    ) -> LossAndJacobianNorm:
        _check_model(model)
        program, axes, objects = find_taps(
            model, layers, args, kwargs, in_axes=in_axes, tap_axes=tap_axes
        )
        loss, norm, layer_norms, (outputs, changes) = loss_and_norm_of(
            program,
            axes,
            lambda result: (per_example_loss(result[0]), result),
            reduction=reduction,
            derivative=derivative,
        )
        update(objects, changes)
        return LossAndJacobianNorm(loss, norm, outputs, layer_norms)

    return loss_and_norm


def _check_model(model: Any) -> None:
    if not isinstance(model, nnx.Module):
        raise TypeError(
            f"a {type(model).__name__} is given in place of an NNX module: write "
            "loss_and_norm(per_example_loss, model, inputs); of Flax Linen, take "
            "har_jax.loss_and_jacobian_norm"
        )
    if not callable(model):
        raise TypeError(
            f"a {type(model).__name__} cannot be called: give a module whose __call__ calls its "
            "methods and returns what the losses need"
        )
