r"""What Theorem 1 says of the minimizer, with its constants, and the best penalty.

With the density q of x, the curvature :math:`H(t) = E[\ell'' | x = t]` and the noise
:math:`V(t) = Var(\ell' | x = t)` of the loss at the truth :math:`f^*`, the error
:math:`\delta = \hat f - f^*` solves to first order

.. math::

    q H \delta - 2 \lambda (\rho \delta')' = 2 \lambda (\rho f^{*\prime})' - \text{noise},

whose Green's function is :math:`e^{-|t - s| / b} / (2 b q H)` with the bandwidth
:math:`b = (2 \lambda \rho / (q H))^{1/2}`. So

.. math::

    \text{bias} = \frac{2 \lambda (\rho f^{*\prime})'}{q H}, \qquad
    \text{variance} = \frac{V}{4 n b q H^2}, \qquad
    \text{MSE} = \int \text{bias}^2 + \text{variance}.

With V = H = I this is Theorem 1 (section 2.2 of Cao et al. 2021), :math:`|r| = 1 / (q I)` and
:math:`L_0 = \frac14`, with what its statement leaves out: r is written with a minus sign there
under a square root, the penalty's derivative has a factor of 2, and the variance is 1/n of a noise.

**The best penalty.** Where :math:`\rho` is constant on parts, a part's error is
:math:`p^2 A + p^{-1/2} B` with :math:`p = 2 \lambda \rho_j`,
:math:`A = \int f^{*\prime\prime 2} / (q H)^2` and
:math:`B = \frac1{4n} \int V q^{-1/2} H^{-3/2}`, which is least at

.. math::

    2 \lambda \rho_j = \Bigl( \frac{B}{4 A} \Bigr)^{2/5}
    = \Bigl( \frac{V q^{3/2} H^{1/2}}{16 n f^{*\prime\prime 2}} \Bigr)^{2/5}
    \propto V^{2/5} q^{3/5} H^{1/5},

the former being section 2.2's :math:`\rho_j`, the latter for q, V, H and :math:`f^{*\prime\prime}`
that are constant, the last if :math:`f^{*\prime\prime}` is the same in all parts. A penalty of each
example, :math:`\tau_i`, has :math:`\tau q = \rho` (section 2.2, eq. 5), so that

.. math::

    \tau = V^{2/5} H^{1/5} q^{-2/5},

which for labels, V = H = I, is the paper's :math:`I^{3/5} q^{-2/5}`. Of regression with
:math:`\ell = \frac12 (y - a)^2` H = 1 and :math:`V = Var(y | x)`; the paper sets I = 1 there and
is left with :math:`q^{-2/5}`. :func:`har_jax.regression_tau` is the rule.

**What it does not hold for.** Where :math:`\rho f^{*\prime}` jumps, or does not vanish at an end of
the interval, there is a further bias over a width of b whose square is of order
:math:`\lambda^{3/2}`, more than the :math:`\lambda^2` of the rest. So the rates are those of an
:math:`f^*` that is level at the ends and wherever :math:`\rho` jumps.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from har_jax.theory.steps import Steps

_Function = Callable[[np.ndarray], np.ndarray]
_POINTS = 20_000  # of an integral, by the midpoint rule


def bandwidth(lam, rho, density, curvature=1.0):
    r"""Computes :math:`b = (2 \lambda \rho / (q H))^{1/2}`, over which errors are averaged."""
    return np.sqrt(2 * lam * rho / (density * curvature))


def bias(flux_slope, lam, density, curvature=1.0):
    r"""Computes the bias :math:`2 \lambda (\rho f^{*\prime})' / (q H)`, elementwise.

    Args:
      flux_slope: :math:`(\rho f^{*\prime})'`: where rho is constant, rho times the second
        derivative.
      lam: :math:`\lambda`.
      density: q, positive.
      curvature: H, positive.
    """
    return 2 * lam * flux_slope / (density * curvature)


def variance(noise, count, lam, rho, density, curvature=1.0):
    r"""Computes the variance :math:`V / (4 n b q H^2)`, elementwise.

    Args:
      noise: V, the variance of the loss's derivative.
      count: n.
      lam: :math:`\lambda`.
      rho: :math:`\rho`.
      density: q, positive.
      curvature: H, positive.
    """
    b = bandwidth(lam, rho, density, curvature)
    return noise / (4 * count * b * density * curvature**2)


def mean_squared_error(
    count: int,
    lam: float,
    rho: Steps,
    density: Steps,
    second_derivative: _Function,
    noise: _Function,
    curvature: _Function = np.ones_like,
) -> tuple[float, float]:
    """Integrates Theorem 1's squared bias and its variance over the interval of ``density``.

    Args:
      count: n.
      lam: The scale of the penalty.
      rho: Of which the truth's slope has to be 0 wherever it jumps.
      density: q, whose integral is 1.
      second_derivative: Of the truth, at points.
      noise: V, at points.
      curvature: H, at points; 1 by default, that of the squared loss.

    Returns:
      The two, whose sum is the mean squared error.
    """
    t, width = _midpoints(density)
    r, q, h = rho(t), density(t), curvature(t)
    squares = bias(r * second_derivative(t), lam, q, h) ** 2
    variances = variance(noise(t), count, lam, r, q, h)
    return float(squares.sum() * width), float(variances.sum() * width)


def optimal_penalty(
    count: int,
    density: Steps,
    second_derivative: _Function,
    noise: _Function,
    curvature: _Function = np.ones_like,
) -> Steps:
    r"""The :math:`\lambda \rho` that is best among those that are constant on each part of q.

    Args:
      count: n.
      density: q, whose parts are the groups.
      second_derivative: Of the truth, at points; not 0 everywhere in a part.
      noise: V, at points.
      curvature: H, at points.
    """
    t, _ = _midpoints(density)
    q, h, parts = density(t), curvature(t), density.parts(t)
    squares = np.bincount(parts, (second_derivative(t) / (q * h)) ** 2)
    variances = np.bincount(parts, noise(t) * q**-0.5 * h**-1.5) / (4 * count)
    return Steps((variances / (4 * squares)) ** (2 / 5) / 2, density.edges)


def _midpoints(density: Steps) -> tuple[Float[np.ndarray, " p"], float]:
    assert density.edges is not None
    first, last = density.edges[0], density.edges[-1]
    width = (last - first) / _POINTS
    return first + width * (np.arange(_POINTS) + 0.5), float(width)
