r"""The exact minimizer of section 2.2's objective.

.. math::

    \hat f = \arg\min_f \; \frac1n \sum_i \ell(f(x_i), y_i) + \lambda \int \rho(t) f'(t)^2 dt

(section 2.2 of Cao et al. 2021, eq. 3; their :math:`\ell` lacks a minus sign there). Between two
neighbouring points nothing but the penalty acts, so that :math:`\rho f'` is constant there: with
:math:`S(t) = \int_0^t 1/\rho`, f is linear in S, constant before the first point and behind the
last one, and the penalty is :math:`\lambda \sum_i (f_{i+1} - f_i)^2 / (S_{i+1} - S_i)`. What is
left is one number for each point.

For a quadratic loss, :math:`\frac12 \sum_i w_i (f_i - z_i)^2`, the unknowns are best the fluxes
:math:`u_i = 2 \lambda (f_{i+1} - f_i) / (S_{i+1} - S_i)`, which solve the tridiagonal system

.. math::

    \Bigl( \frac{S_{i+1} - S_i}{2 \lambda} + \frac1{w_i} + \frac1{w_{i+1}} \Bigr) u_i
    - \frac{u_{i-1}}{w_i} - \frac{u_{i+1}}{w_{i+1}} = z_{i+1} - z_i, \qquad
    f_i = z_i + \frac{u_i - u_{i-1}}{w_i}.

Points may coincide, and the system is as well conditioned with 100,000 points as with ten. The
logistic loss takes a few such systems, by Newton's method.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special
from scipy.linalg import solveh_banded

from har_jax.theory.steps import Steps

_STEPS = 100  # of Newton's method, which takes ten
_ACCURACY = 1e-10  # of what is left of the gradient, relative to that of each point
_Losses = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Loss(NamedTuple):
    r"""A convex loss :math:`\ell(a, y)` and its derivatives in a, elementwise.

    Attributes:
      value: :math:`\ell`.
      slope: :math:`\ell'`, the score, whose variance is the noise V.
      curvature: :math:`\ell''`, whose mean is H.
    """

    value: _Losses
    slope: _Losses
    curvature: _Losses


LOSSES = {
    "squared": Loss(  # half of the square, as section 2.2 has it
        lambda a, y: (a - y) ** 2 / 2,
        lambda a, y: a - y,
        lambda a, y: np.ones_like(a),
    ),
    "logistic": Loss(  # y is -1 or 1
        lambda a, y: np.logaddexp(0, -y * a),
        lambda a, y: -y * special.expit(-y * a),
        lambda a, y: special.expit(a) * special.expit(-a),
    ),
}


class Curve(NamedTuple):
    """A minimizer.

    Attributes:
      points: ``[n]``, ascending: the x that it was fitted to.
      values: ``[n]``, f there.
      rho: Between two points f is linear in the integral of one over this.
    """

    points: Float[np.ndarray, " n"]
    values: Float[np.ndarray, " n"]
    rho: Steps

    def __call__(self, points: Float[np.ndarray, "*p"]) -> Float[np.ndarray, "*p"]:
        """f at any points of the interval."""
        resistance = self.rho.inverse().integral
        return np.interp(resistance(points), resistance(self.points), self.values)


def smooth(
    x: Float[np.ndarray, " n"],
    y: Float[np.ndarray, " n"],
    *,
    rho: Steps,
    lam: float,
    loss: str = "squared",
) -> Curve:
    r"""Finds the curve that minimizes loss and penalty, exactly.

    Args:
      x: ``[n]``, in any order, within the edges of ``rho``; some may coincide.
      y: ``[n]``, numbers; -1 or 1 for the logistic loss.
      rho: :math:`\rho`.
      lam: :math:`\lambda`, positive.
      loss: One of :data:`LOSSES`.

    Returns:
      The :class:`Curve`. The slopes of the losses there add up to 0, since a constant costs
      nothing. A small :math:`\lambda` interpolates, a large one makes f a constant.

    Raises:
      ValueError: if shapes do not fit, an x lies outside of the edges, values are not finite,
        ``lam`` is not positive, or labels are not -1 or 1 or all alike, so that there is no
        minimizer.

    Example:
      >>> curve = smooth(np.array([0.0, 1.0]), np.array([0.0, 1.0]), rho=Steps([1.0]), lam=0.125)
      >>> curve(np.array([0.0, 0.5, 1.0]))
      array([0.25, 0.5 , 0.75])
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    _check(x, y, lam, loss)
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    half_gaps = np.diff(rho.inverse().integral(x)) / (2 * lam)
    if loss == "squared":
        return Curve(x, _quadratic(y, np.full(len(y), 1 / len(y)), half_gaps), rho)
    return Curve(x, _newton(y, half_gaps, LOSSES[loss]), rho)


def objective(curve: Curve, y: Float[np.ndarray, " n"], lam: float, loss: str = "squared") -> float:
    r"""What :func:`smooth` minimizes, of a curve that is linear in S between its points.

    Args:
      curve: Its points ascend, none twice.
      y: ``[n]``, in the order of the points.
      lam: :math:`\lambda`.
      loss: One of :data:`LOSSES`.
    """
    gaps = np.diff(curve.rho.inverse().integral(curve.points))
    penalty = np.sum(np.diff(curve.values) ** 2 / gaps)
    return float(np.mean(LOSSES[loss].value(curve.values, y)) + lam * penalty)


def _quadratic(z: np.ndarray, weights: np.ndarray, half_gaps: np.ndarray) -> np.ndarray:
    """The f that minimizes half of the weighted squares and the penalty; half_gaps: dS / 2 lam."""
    inverse, flux = 1 / weights, np.diff(z)
    banded = np.stack([-inverse[:-1], half_gaps + inverse[:-1] + inverse[1:]])
    if len(flux) > 1:
        flux = solveh_banded(banded, flux, check_finite=False)
    else:  # none or one, which SciPy's does not take
        flux = flux / banded[1]
    return z + np.diff(flux, prepend=0, append=0) * inverse


def _newton(y: np.ndarray, half_gaps: np.ndarray, loss: Loss) -> np.ndarray:
    """Newton's method, with steps that are halved until they help."""
    count = len(y)

    def total(f: np.ndarray) -> float:
        rise = np.diff(f)
        joined = half_gaps == 0  # points that coincide: no step of theirs parts them
        costs = np.divide(rise**2, 2 * half_gaps, out=np.zeros_like(rise), where=~joined)
        return float(np.mean(loss.value(f, y)) + costs.sum())

    f = np.full(count, special.logit(np.mean(y > 0)))
    now = total(f)
    for _ in range(_STEPS):
        slope, curvature = loss.slope(f, y) / count, loss.curvature(f, y) / count
        step = _quadratic(f - slope / curvature, curvature, half_gaps) - f
        # Of the quadratic, whose minimum the whole step is.
        if np.max(curvature * np.abs(step)) < _ACCURACY / count:
            return f + step
        size, rounding = 1.0, 1e-12 * (1 + now)
        while (then := total(f + size * step)) > now + rounding and size > 1e-8:
            size /= 2
        f, now = f + size * step, then
    raise FloatingPointError(f"Newton's method did not converge in {_STEPS} steps")


def _check(x: np.ndarray, y: np.ndarray, lam: float, loss: str) -> None:
    if x.ndim != 1 or x.shape != y.shape or not x.size:
        raise ValueError(f"x and y must be of one shape [n]; got {list(x.shape)}, {list(y.shape)}")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise ValueError("x and y must be finite")
    if not (np.isfinite(lam) and lam > 0):
        raise ValueError(f"lam={lam} must be positive and finite")
    if loss not in LOSSES:
        raise ValueError(f"loss={loss!r} is unknown: there are {', '.join(LOSSES)}")
    if loss == "logistic":
        if not np.all(np.abs(y) == 1):
            raise ValueError("labels of the logistic loss must be -1 or 1")
        if np.all(y == y[0]):
            raise ValueError(f"every label is {y[0]:g}: the logistic loss then has no minimizer")
