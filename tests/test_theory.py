"""The one-dimensional problem: its solver against brute force, Theorem 1 against simulation."""

import re

import numpy as np
import pytest
from scipy import optimize

from har_jax.strength import noise_frequency_tau, regression_tau
from har_jax.theory import (
    LOSSES,
    Curve,
    Design,
    Steps,
    bandwidth,
    draw,
    mean_squared_error,
    objective,
    optimal_penalty,
    smooth,
    squared_errors,
)

WAVES = 4 * np.pi  # level at 0, 1/2 and 1
RHO = Steps([0.5, 2.0, 1.0], [0.0, 0.3, 0.6, 1.0])


def waves(density, deviation, size=1.0):
    return Design(
        lambda t: size * np.cos(WAVES * t),
        lambda t: -size * WAVES**2 * np.cos(WAVES * t),
        Steps(density),
        None if deviation is None else Steps(deviation),
    )


def points(loss, count=12, seed=0):
    rng = np.random.default_rng(seed)
    x, y = np.sort(rng.random(count)), rng.normal(size=count)
    return x, (np.sign(y) if loss == "logistic" else y)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("lam", [1e-3, 0.1])
def test_the_minimizer_is_that_of_a_dense_grid(loss, lam):
    """Finite differences on a grid that knows neither the gaps' formula nor the fluxes."""
    cells = 600
    grid = np.linspace(0, 1, cells + 1)
    rng = np.random.default_rng(1)
    at = np.sort(rng.choice(cells + 1, 9, replace=False))
    y = np.array([1.0, -1, 1, 1, -1, -1, 1, -1, 1]) * (1 if loss == "logistic" else rng.random(9))
    rho = RHO((grid[1:] + grid[:-1]) / 2)
    rise = np.diff(np.eye(cells + 1), axis=0)
    curved = 2 * lam * rise.T @ (rho[:, None] * cells * rise)

    def value(f):
        return np.mean(LOSSES[loss].value(f[at], y)) + f @ curved @ f / 2

    def gradient(f):
        slope = curved @ f
        np.add.at(slope, at, LOSSES[loss].slope(f[at], y) / len(at))
        return slope

    def hessian(f):
        h = curved.copy()
        h[at, at] += LOSSES[loss].curvature(f[at], y) / len(at)
        return h

    brute = optimize.minimize(
        value, np.zeros(cells + 1), jac=gradient, hess=hessian, method="Newton-CG", tol=1e-13
    ).x
    found = smooth(grid[at], y, rho=RHO, lam=lam, loss=loss)
    np.testing.assert_allclose(found(grid), brute, atol=2e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_near_the_minimizer_is_better(loss):
    x, y = points(loss)
    found = smooth(x, y, rho=RHO, lam=0.01, loss=loss)
    least, rng = objective(found, y, 0.01, loss), np.random.default_rng(0)
    for _ in range(100):
        other = Curve(x, found.values + 1e-3 * rng.normal(size=len(x)), RHO)
        assert objective(other, y, 0.01, loss) > least


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("lam", [1e-4, 1e-1, 1e3])
def test_the_slopes_of_the_losses_add_up_to_nothing(loss, lam):
    x, y = points(loss, 500)
    values = smooth(x, y, rho=RHO, lam=lam, loss=loss).values
    assert abs(np.mean(LOSSES[loss].slope(values, y))) < 1e-10


@pytest.mark.parametrize("loss", LOSSES)
def test_the_flux_into_a_point_is_the_slope_of_its_loss(loss):
    x, y = points(loss, 50)
    found = smooth(x, y, rho=RHO, lam=0.02, loss=loss)
    flux = 0.04 * np.diff(found.values) / np.diff(RHO.inverse().integral(x))
    own = LOSSES[loss].slope(found.values, y) / len(x)
    np.testing.assert_allclose(np.diff(flux, prepend=0, append=0), own, atol=1e-12)


def test_a_small_penalty_interpolates_and_a_large_one_makes_a_level_line():
    x, y = points("squared")
    np.testing.assert_allclose(smooth(x, y, rho=RHO, lam=1e-12).values, y, atol=1e-8)
    level = smooth(x, y, rho=RHO, lam=1e9)(np.linspace(0, 1, 5))
    np.testing.assert_allclose(level, y.mean(), atol=1e-7)
    _, labels = points("logistic")
    level = smooth(x, labels, rho=RHO, lam=1e9, loss="logistic")(np.linspace(0, 1, 5))
    share = np.mean(labels > 0)
    np.testing.assert_allclose(level, np.log(share / (1 - share)), atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_order_does_not_count_and_equal_points_are_fitted_alike(loss):
    x, y = points(loss)
    x[3] = x[4] = x[5]
    found = smooth(x, y, rho=RHO, lam=0.01, loss=loss)
    assert np.ptp(found.values[3:6]) < 1e-10
    order = np.random.default_rng(0).permutation(len(x))
    again = smooth(x[order], y[order], rho=RHO, lam=0.01, loss=loss)
    np.testing.assert_allclose(again.values, found.values, atol=1e-10)


def test_one_point_is_met_and_two_are_drawn_together():
    assert smooth(np.array([0.4]), np.array([3.0]), rho=RHO, lam=1.0).values == [3.0]
    x, y, lam = np.array([0.1, 0.9]), np.array([0.0, 1.0]), 0.2
    gap = np.diff(RHO.inverse().integral(x))[0]
    rise = 1 / (1 + 8 * lam / gap)  # of f: the minimum of (1 - rise)^2 / 8 + lam rise^2 / gap
    found = smooth(x, y, rho=RHO, lam=lam).values
    np.testing.assert_allclose(found, [(1 - rise) / 2, (1 + rise) / 2])


def test_many_points_are_as_exact_as_few():
    x, y = points("squared", 100_000)
    found = smooth(x, y, rho=RHO, lam=1e-5)
    flux = 2e-5 * np.diff(found.values) / np.diff(RHO.inverse().integral(x))
    rest = np.diff(flux, prepend=0, append=0) * len(x) - (found.values - y)
    close = np.concatenate([[np.inf], np.diff(x)]) < 1e-8  # whose rise is lost in rounding
    close |= np.roll(close, -1)
    assert np.max(np.abs(rest[~close])) < 1e-3
    assert abs(np.sum(found.values - y)) < 1e-6


def test_scaling_rho_is_scaling_lambda_and_steps_that_are_equal_are_none():
    x, y = points("squared")
    base = smooth(x, y, rho=RHO, lam=0.02).values
    scaled = smooth(x, y, rho=Steps(2 * RHO.values, RHO.edges), lam=0.01).values
    np.testing.assert_allclose(scaled, base, atol=1e-12)
    plain = smooth(x, y, rho=Steps([3.0]), lam=0.02).values
    np.testing.assert_allclose(smooth(x, y, rho=Steps([3.0, 3.0]), lam=0.02).values, plain)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lam": 0.0}, "lam=0.0 must be positive"),
        ({"x": np.array([0.5, 1.5])}, "points from 0.5 to 1.5 are not all in [0, 1]"),
        ({"y": np.array([1.0, np.nan])}, "must be finite"),
        ({"y": np.zeros(3)}, "got [2], [3]"),
        ({"loss": "absolute"}, "there are squared, logistic"),
        ({"loss": "logistic"}, "must be -1 or 1"),
        ({"loss": "logistic", "y": np.ones(2)}, "every label is 1"),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes, message):
    arguments = {"x": np.array([0.2, 0.4]), "y": np.array([0.0, 1.0]), "rho": RHO, "lam": 1.0}
    arguments |= changes
    with pytest.raises(ValueError, match=re.escape(message)):
        smooth(arguments.pop("x"), arguments.pop("y"), **arguments)


def test_steps_are_integrated_and_refused():
    t = np.linspace(0, 1, 100_001)
    middle = (t[1:] + t[:-1]) / 2
    brute = np.concatenate([[0], np.cumsum(RHO(middle)) * (t[1] - t[0])])
    np.testing.assert_allclose(RHO.integral(t), brute, atol=1e-9)
    with pytest.raises(ValueError, match="must be positive"):
        Steps([1.0, 0.0])
    with pytest.raises(ValueError, match="must ascend, and be one more than the 2 values"):
        Steps([1.0, 2.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="integral is 2, not 1"):
        waves([2.0], [1.0])


def test_points_are_drawn_by_their_density_and_labels_by_the_logistic_model():
    x, y = draw(waves([1.6, 0.4], [1.0, 3.0]), 20_000, np.random.default_rng(0))
    assert np.mean(x < 0.5) == pytest.approx(0.8, abs=0.01)
    assert np.std((y - np.cos(WAVES * x))[x > 0.5]) == pytest.approx(3, rel=0.05)
    design = waves([1.0], None, size=2.0)
    x, y = draw(design, 20_000, np.random.default_rng(0))
    high = np.cos(WAVES * x) > 0.9
    chance = 1 / (1 + np.exp(-design.truth(x[high])))
    assert np.mean(y[high] == 1) == pytest.approx(chance.mean(), abs=0.02)


@pytest.mark.parametrize("deviation", [[0.5, 1.0], None], ids=["squared", "logistic"])
def test_theorem_1_predicts_the_error(deviation):
    """At a few thousand points; corrections are of the order of the bandwidth."""
    design, count = waves([1.6, 0.4], deviation), 4000
    given = (design.density, design.second_derivative, design.noise, design.curvature)
    best = optimal_penalty(count, *given)
    predicted = sum(mean_squared_error(count, 1.0, best, *given))
    errors = squared_errors(design, count, [best], repeats=30, seed=0)[:, 0]
    standard_error = errors.std(ddof=1) / np.sqrt(len(errors))
    assert standard_error < 0.1 * predicted
    assert errors.mean() == pytest.approx(predicted, abs=0.15 * predicted + 2 * standard_error)


def test_bias_and_variance_apart_are_theorem_1s():
    """Without noise there is the bias alone, around 0 the variance alone."""
    count, rho = 20_000, Steps([1e-4])
    clear = waves([1.0], [1e-9])
    given = (clear.density, clear.second_derivative, clear.noise, clear.curvature)
    squares, _ = mean_squared_error(count, 1.0, rho, *given)
    measured = squared_errors(clear, count, [rho], repeats=2, seed=0).mean()
    exact = 1 / (1 + (WAVES * bandwidth(1.0, 1e-4, 1.0)) ** 2) ** 2  # of a cosine
    assert measured == pytest.approx(squares * exact, rel=0.02)
    level = waves([1.0], [1.0], size=0.0)
    given = (level.density, level.second_derivative, level.noise, level.curvature)
    _, variances = mean_squared_error(count, 1.0, rho, *given)
    ends = 1 + 2 * bandwidth(1.0, 1e-4, 1.0)  # where noise is averaged over half of the width
    errors = squared_errors(level, count, [rho], repeats=40, seed=0)
    spread = errors.std() / np.sqrt(40)
    assert spread < 0.05 * variances
    assert errors.mean() == pytest.approx(variances * ends, abs=3 * spread)


def test_a_truth_that_is_not_level_at_the_ends_has_a_bias_that_the_theorem_lacks():
    """f* = t has no second derivative, yet an error of b^3 / 2 at each end."""
    slope = Design(lambda t: t, np.zeros_like, Steps([1.0]), Steps([1e-9]))
    b = bandwidth(1.0, 1e-4, 1.0)
    measured = squared_errors(slope, 20_000, [Steps([1e-4])], repeats=1, seed=0).mean()
    assert measured == pytest.approx(b**3, rel=0.05)


def test_the_best_penalty_is_the_least_of_the_formula_and_goes_by_the_rule():
    count, design = 1000, waves([1.6, 0.4], [0.5, 2.0])
    given = (design.density, design.second_derivative, design.noise, design.curvature)
    best = optimal_penalty(count, *given)
    least = sum(mean_squared_error(count, 1.0, best, *given))
    for factors in ([1.01, 1.0], [0.99, 1.0], [1.0, 1.01], [1.0, 0.99]):
        other = Steps(best.values * factors)
        assert sum(mean_squared_error(count, 1.0, other, *given)) > least
    density, noise = np.array([1.6, 0.4]), np.array([0.25, 4.0])
    tau = best.values / density
    assert tau[1] / tau[0] == pytest.approx(
        regression_tau(noise, density)[1] / regression_tau(noise, density)[0]
    )
    exact = (noise * density**1.5 / (16 * count * WAVES**4 / 2)) ** 0.4 / 2  # mean of cos^2: 1/2
    np.testing.assert_allclose(best.values, exact, rtol=1e-6)


def test_the_rule_of_regression_is_that_of_labels_where_noise_is_curvature():
    rng = np.random.default_rng(0)
    noise, frequency = rng.random(20), rng.random(20)
    np.testing.assert_allclose(
        regression_tau(noise, frequency, noise), noise_frequency_tau(noise, frequency)
    )
    np.testing.assert_allclose(regression_tau(np.ones(20), frequency), frequency**-0.4)
