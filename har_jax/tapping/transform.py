"""Per-example losses and norms of any function that contains taps, as a transformation."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float

from har_jax import jacobian
from har_jax.jacobian import Axes, LossAndNorm
from har_jax.tapping.dependence import unused_marks
from har_jax.tapping.marks import TapError
from har_jax.tapping.norms import loss_and_norm_of
from har_jax.tapping.program import Program, Tap, trace
from har_jax.tapping.taps import TAPS


def loss_and_tap_norm(
    fun: Callable[..., Any],
    *,
    has_aux: bool = False,
    reduction: jacobian.Reduction = "root_sum_square",
    derivative: jacobian.Derivative = "exact",
) -> Callable[..., LossAndNorm]:
    r"""Makes a function that computes :math:`\ell_i` and :math:`R(x_i)` of any JAX code.

    .. math::

        R(x_i) = \Bigl( \sum_j \| \partial \ell_i / \partial h_i^{(j)} \|_F^2 \Bigr)^{1/2}

    over the activations :math:`h^{(j)}` that :func:`har_jax.tap` marks in ``fun``, or in what it
    calls: equation in section 2.3 of Cao et al. 2021. See :mod:`har_jax.jacobian` for what is
    guaranteed, and for what R means where BatchNorm makes the examples of a batch interact.

    Every run of a tap counts, whatever transformation of JAX it is inside of:

    * an axis that a loop adds (``jax.lax.scan``, ``jax.lax.map``, a ``fori_loop`` of a length that
      is known) indexes layers :math:`h^{(j)}`;
    * one that ``jax.vmap`` adds indexes features of a layer, but for that of the examples;
    * of a branch that did not run the gradient is zero.

    Args:
      fun: Returns ``[B]`` losses, floating; with ``has_aux`` a pair of these and anything else. It
        is traced when it is called, and should do nothing but compute what it returns.
      has_aux: Whether it returns such a pair.
      reduction: ``"root_sum_square"``, or ``"sum_of_norms"`` for :math:`\sum_j \|J_j\|_F`.
      derivative: How the result is differentiated, ``"exact"`` or ``"first_order"``: see
        :func:`har_jax.loss_and_jacobian_norm`.

    Returns:
      A function of ``fun``'s own arguments that returns a :class:`har_jax.LossAndNorm`: ``loss``
      and ``norm``, of shape ``[B]``; ``layer_norms``, by the tap's name ``[B]``, or ``[..., B]``
      where loops stack layers, and ``name[0]``, ``name[1]``, ... where several have one name; and
      ``aux``. It can be used inside of all transformations of JAX. It raises
      :class:`har_jax.TapError`

      * if ``fun`` runs no tap, or one that the losses do not depend on;
      * if the examples of a tap are not where its ``axis`` says, or if more than one axis may be
        theirs;
      * for a tap that JAX takes no gradient through: in a ``jax.lax.while_loop``, or in a
        ``jax.custom_vjp`` or ``custom_jvp`` function. Beside one it is served;

      and ``ValueError`` if the losses are not of shape ``[B]``.

    Example:
      >>> import har_jax, jax, optax
      >>> from jax import numpy as jnp
      >>> def losses(params, x, labels):
      ...     hidden = har_jax.tap(jnp.tanh(x @ params["in"]), "hidden")
      ...     logits = hidden @ params["out"]
      ...     return optax.softmax_cross_entropy_with_integer_labels(logits, labels)
      >>> params = {"in": jnp.ones((5, 4)), "out": jnp.eye(4, 3)}
      >>> def objective(params, x, labels, strength):
      ...     r = loss_and_tap_norm(losses)(params, x, labels)
      ...     return jnp.mean(r.loss + strength * r.norm)
      >>> x, labels = jnp.ones((2, 5)), jnp.array([0, 1])
      >>> gradients = jax.jit(jax.grad(objective))(params, x, labels, jnp.full(2, 0.1))
    """
    if not callable(fun):
        raise TypeError(f"fun={fun!r} is no function")

    def loss_and_norm(*args: Any, **kwargs: Any) -> LossAndNorm:
        size = 0

        def run() -> tuple[Float[Array, " B"], Any]:
            nonlocal size
            loss, aux = _with_aux(fun(*args, **kwargs), has_aux)
            jacobian.check_loss(loss)
            size = len(loss)
            return loss, aux

        program = trace(run, context=TAPS, kind=TAPS)
        _check_taps(program)
        return loss_and_norm_of(
            program,
            [_axes(tap, size) for tap in program.taps],
            lambda result: result,
            reduction=reduction,
            derivative=derivative,
        )

    return loss_and_norm


def _with_aux(result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise ValueError(
        f"with has_aux=True the function returns a pair, (losses, aux); it is a "
        f"{type(result).__name__}"
    )


def _check_taps(program: Program) -> None:
    if not program.taps:
        raise TapError(
            "the function runs no tap: R would be zero. Go on with har_jax.tap(x) in place of x "
            "where an activation counts, inside of the function that is given"
        )
    _, *aux = program.jaxpr.outvars
    if unused := unused_marks(program.jaxpr, [True, *(False for _ in aux)]):
        raise TapError(
            f"the losses do not depend on {TAPS.subject.format(unused[0])}, whose norm would be "
            "zero: go on with what har_jax.tap returns, or take the tap out"
        )


def _axes(tap: Tap, size: int) -> Axes:
    """Which axes of a tap index its examples and its layers."""
    subject = f"{TAPS.subject.format(tap.name)}, axis={tap.axis!r},"
    vmaps = {tap.loops + i: name for i, name in enumerate(tap.mapped)}
    fitting = [axis for axis in vmaps if tap.shape[axis] == size]
    if isinstance(tap.axis, int):
        batch = tap.added + tap.axis % (len(tap.shape) - tap.added)
        if tap.shape[batch] != size:
            raise TapError(
                f"{subject} has {tap.shape[batch]} entries there, of its shape "
                f"{list(tap.shape[tap.added :])}, and there are {size} losses: say where the "
                "examples lie, and inside of a jax.vmap over them axis=None"
            )
        if fitting:
            raise TapError(
                f"{subject} is inside of a jax.vmap of {size} rows, and has an axis of {size} "
                "entries, as many as there are losses: say axis=None if that jax.vmap is over the "
                "examples, and tap what it returns if it is not"
            )
        return Axes(batch, tuple(range(tap.loops)))
    if isinstance(tap.axis, str):
        fitting = [axis for axis, name in vmaps.items() if name == tap.axis]
        if len(fitting) == 1 and tap.shape[fitting[0]] != size:
            raise TapError(
                f"{subject} is inside of a jax.vmap of that name with {tap.shape[fitting[0]]} "
                f"rows, and there are {size} losses: name the one that is over the examples"
            )
    around = f"inside of jax.vmap of {', '.join(str(tap.shape[axis]) for axis in vmaps)} rows"
    if len(fitting) > 1:
        raise TapError(
            f"{subject} is {around}, of which more than one may be over the {size} examples: "
            "give that one an axis_name of its own, and the tap this name as its axis"
        )
    if not fitting:
        raise TapError(
            f"{subject} is {around if vmaps else 'not inside of a jax.vmap'}, and there are {size} "
            "losses: map the examples with jax.vmap (a jax.lax.map stacks layers), or say on which "
            "axis of the array they lie"
        )
    return Axes(fitting[0], tuple(range(tap.loops)))
