"""From I and q to tau, and from tau to strengths."""

import warnings

import numpy as np
from jaxtyping import Float


def noise_frequency_tau(noise, frequency):
    r"""Computes :math:`\tau = I^{3/5} / q^{2/5}` elementwise, of NumPy or JAX arrays.

    Args:
      noise: I, not negative.
      frequency: q, positive.
    """
    return noise ** (3 / 5) / frequency ** (2 / 5)


def scale_to_maximum(tau: Float[np.ndarray, " n"], maximum: float) -> Float[np.ndarray, " n"]:
    r"""Computes :math:`\lambda \tau` with :math:`\lambda` such that the largest is ``maximum``.

    The paper sets the maximum to 0.1 in all its experiments (appendix B).

    Args:
      tau: ``[n]``, of examples or of groups, finite and not negative.
      maximum: The largest strength, not negative.

    Returns:
      ``[n]`` strengths; zeros where every tau is 0, with a warning.

    Raises:
      ValueError: if a tau is negative or not finite, or if the maximum is.
    """
    tau = np.asarray(tau, np.float64)
    if tau.ndim != 1:
        raise ValueError(f"tau must have one number for each, shape [n]; got {list(tau.shape)}")
    if not np.all(good := np.isfinite(tau) & (tau >= 0)):
        first = int(np.argmin(good))
        raise ValueError(f"tau must be finite and not negative; number {first} is {tau[first]}")
    if not (np.isfinite(maximum) and maximum >= 0):
        raise ValueError(f"the maximum strength {maximum} must be finite and not negative")
    largest = tau.max(initial=0.0)
    if largest == 0:
        warnings.warn(
            "every tau is 0, as after a validation without errors: nothing is regularized",
            stacklevel=2,
        )
        return np.zeros_like(tau)
    return maximum * (tau / largest)


def random_strength(strength: Float[np.ndarray, " n"], seed: int) -> Float[np.ndarray, " n"]:
    """Draws strengths uniformly from 0 to twice the mean of ``strength``, whose mean they share.

    The ablation "random" of appendix C of Cao et al. 2021: as much regularization, and no
    knowledge of where.
    """
    return np.random.default_rng(seed).uniform(0, 2 * np.mean(strength), len(strength))


def inverse_strength(strength: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The inverses of strengths, scaled to the same mean.

    The ablation "inverse" of appendix C of Cao et al. 2021: as much regularization, most of
    it where HAR has least.

    Raises:
      ValueError: if a strength is not positive.
    """
    strength = np.asarray(strength, np.float64)
    if not np.all(strength > 0):
        raise ValueError(
            "the inverse of a strength needs it to be positive, and "
            f"{int(np.sum(~(strength > 0)))} of {len(strength)} are not"
        )
    inverse = 1 / strength
    return inverse * (strength.mean() / inverse.mean())
