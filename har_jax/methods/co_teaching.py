"""Co-teaching: two networks, each of which chooses the examples that the other one learns from."""

from typing import Annotated, Unpack

import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int

from har_jax.methods.shared.axis import whole_batch
from har_jax.methods.shared.method import Method
from har_jax.methods.shared.pair import taught_by_each_other
from har_jax.methods.shared.single_network import StepOptions
from har_jax.options import Option


def co_teaching(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    steps_per_epoch: float,
    noise_rate: Annotated[
        float | None,
        Option("the share of labels that are wrong; None: estimated out of sample", ge=0, lt=1),
    ] = None,
    gradual_epochs: Annotated[
        int, Option("over which the share that is left out grows to that", ge=1, le=10**6)
    ] = 10,
    exponent: Annotated[
        float, Option("of the rate while that grows, as the authors' code has it", gt=0, le=100)
    ] = 1.0,
    **options: Unpack[StepOptions],
) -> Method:
    """Each of two networks is updated on those examples whose losses the other finds smallest.

    A baseline of the paper's tables: Han et al. 2018 (arXiv 1804.06872). Both see the same batch
    with the same augmentation, and the losses are those that are differentiated, as in the
    authors' code. A loss is the mean of the examples that are kept: their code divides by their
    number once more, which for other optimizers than Adam is another learning rate.

    Args:
      model: Called as ``model(inputs, train=...)``, returns ``logits [B, K]``.
      optimizer: An Optax gradient transformation.
      steps_per_epoch: How many steps see every example once.
      noise_rate: Of the training set.
      gradual_epochs: See :func:`forget_rate`.
      exponent: See :func:`forget_rate`.
      **options: Those of :class:`har_jax.methods.StepOptions`; ``start`` has ``first`` and
        ``second`` in each of its collections.

    Returns:
      A :class:`har_jax.methods.Method`; its batches hold ``inputs`` and ``labels``. Metrics and
      predictions are the first network's, which begins as that of other methods does.

    Raises:
      ValueError: without a noise rate, of options outside of their bounds, or of several
        microbatches: the smallest losses are a batch's.
    """
    whole_batch("co_teaching", options)
    if noise_rate is None:
        raise ValueError("co_teaching: noise_rate is needed, the share of labels that are wrong")
    if not (0 <= noise_rate < 1 and gradual_epochs >= 1):
        raise ValueError(
            f"co_teaching: noise_rate={noise_rate} must be in [0, 1), and gradual_epochs="
            f"{gradual_epochs} at least 1"
        )

    def keeps(step: Int[Array, ""], size: int) -> Int[Array, ""]:
        epoch = 1.0 + jnp.floor(step.astype(jnp.float32) / steps_per_epoch)
        return number_kept(1 - forget_rate(epoch, noise_rate, gradual_epochs, exponent), size)

    return taught_by_each_other(model, optimizer, keeps, **options)


def forget_rate(
    epoch: Float[Array, ""] | float, noise_rate: float, gradual_epochs: int, exponent: float = 1.0
) -> Float[Array, ""]:
    r"""The share of a batch that is left out: :math:`\tau^c e / (T_k - 1)` before epoch
    :math:`T_k`, then :math:`\tau`.

    As Han et al.'s code has it, whose first epoch is 1. Their paper has
    :math:`\tau \min(e^c / T_k, 1)`, which is nearly the same at c = 1.

    Args:
      epoch: e, from 0 on.
      noise_rate: :math:`\tau`.
      gradual_epochs: :math:`T_k`.
      exponent: c.

    Returns:
      The share, in ``[0, 1)``.
    """
    growing = noise_rate**exponent * epoch / max(gradual_epochs - 1, 1)
    return jnp.where(jnp.asarray(epoch) < gradual_epochs, growing, noise_rate)


def number_kept(share: Float[Array, ""] | float, size: int) -> Int[Array, ""]:
    """How many of so many examples a share of them is, rounded down, as the authors' code does."""
    return jnp.floor(share * float(size) + _ROUNDING).astype(jnp.int32)


_ROUNDING = 1e-4  # of a share in float32, times a batch
