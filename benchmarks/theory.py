"""Theorem 1 of Cao et al. 2021 against simulation: rates, and the best ratio of strengths.

python -m benchmarks.theory rates  [--repeats=100]
python -m benchmarks.theory ratios [--repeats=100] [--count=3000] [--only=labels]

``rates`` fits curves to 10^3 to 10^5 points with the penalty that the theorem calls best, which
goes as n^(-2/5), and compares the error and its slope with the theorem's.
``ratios`` finds the two penalties, one for each half, with the least measured error, by a quadratic
in their logarithms around it, and compares their ratio with the rule's; standard errors are of
bootstrap samples of the repeats. Both print lines of Markdown.
"""

import argparse

import numpy as np

from har_jax.reproduce.figures.theory import ruled, wave
from har_jax.theory import Design, Steps, mean_squared_error, optimal_penalty, squared_errors

_COUNTS = (1_000, 3_162, 10_000, 31_623, 100_000)
# By what is on the right in units of the left: the standard deviation of noise, and density.
_PAIRS = {
    "2, 1": wave([1.0, 1.0], [0.3, 0.6]),
    "4, 1": wave([1.0, 1.0], [0.3, 1.2]),
    "1, 1/4": wave([1.6, 0.4], [0.3, 0.3]),
    "2, 1/4": wave([1.6, 0.4], [0.3, 0.6]),
    "4, 1/4": wave([1.6, 0.4], [0.3, 1.2]),
    "4, 4": wave([0.4, 1.6], [0.3, 1.2]),
}
_REACH = 2  # grid points on each side of the least one that the quadratic is fitted to


def labels() -> Design:
    """Labels of -1 and 1, of which those on the right are rarer, and clearer at the end."""
    height = lambda t: np.where(t < 0.5, 0.75, 1.5)
    wave = 2 * np.pi
    return Design(
        lambda t: height(t) * (1 + np.cos(wave * t)),
        lambda t: -height(t) * wave**2 * np.cos(wave * t),
        Steps(np.array([1.4, 0.6])),
    )


def given(design: Design) -> tuple:
    """What the theorem goes by."""
    return design.density, design.second_derivative, design.noise, design.curvature


def rates(repeats: int) -> None:
    for name, design in {"squared": _PAIRS["4, 1/4"], "logistic": labels()}.items():
        rows = []
        for count in _COUNTS:
            best = optimal_penalty(count, *given(design))
            predicted = mean_squared_error(count, 1.0, best, *given(design))
            errors = squared_errors(design, count, [best], repeats, seed=count)[:, 0]
            error = errors.std(ddof=1) / np.sqrt(repeats)
            rows.append((count, errors.mean(), error, *predicted))
            print(
                f"| {name} | {count:,} | {errors.mean():.3e} ± {error:.1e} "
                f"| {sum(predicted):.3e} "
                f"| {errors.mean() / sum(predicted):.3f} ± {error / sum(predicted):.3f} |",
                flush=True,
            )
        n, mean, error, squares, variances = np.array(rows).T
        fits = [np.polyfit(np.log(n), np.log(each), 1)[0] for each in (mean, squares + variances)]
        x = np.log(n) - np.log(n).mean()
        of_slope = np.sqrt(np.sum((x * error / mean) ** 2)) / np.sum(x**2)
        print(f"{name}: slope {fits[0]:.4f} ± {of_slope:.4f}, the theorem's {fits[1]:.4f}\n")


def ratios(repeats: int, count: int, only: str | None) -> None:
    logs = np.log(2) / 2 * np.arange(-4, 5)
    for name, design in {**_PAIRS, "labels": labels()}.items():
        if only not in (None, name):
            continue
        best = optimal_penalty(count, *given(design))
        penalties = [Steps(best.values * np.exp([a, b])) for a in logs for b in logs]
        errors = squared_errors(design, count, penalties, repeats, seed=0, points=500)
        errors = errors.reshape(repeats, len(logs), len(logs))
        rng = np.random.default_rng(0)
        ratio = lambda errors: np.exp(np.subtract(*least(errors.mean(axis=0), logs)[::-1]))
        predicted = best.values[1] / best.values[0]
        found = predicted * ratio(errors)
        again = [ratio(errors[rng.integers(repeats, size=repeats)]) for _ in range(200)]
        papers = "as ours"
        if design.deviation is not None:
            rho = ruled(design, noise=False).values
            papers = f"{rho[1] / rho[0]:.2f}"
        spread = predicted * np.std(again, ddof=1)
        print(f"| {name} | {found:.2f} ± {spread:.2f} | {predicted:.2f} | {papers} |", flush=True)


def least(errors: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Where the quadratic has its minimum that fits a surface around its least value."""
    at = np.unravel_index(np.argmin(errors), errors.shape)
    middle = np.clip(at, _REACH, len(logs) - 1 - _REACH)
    rows, columns = (slice(m - _REACH, m + _REACH + 1) for m in middle)
    a, b = (each.ravel() for each in np.meshgrid(logs[rows], logs[columns], indexing="ij"))
    terms = np.stack([np.ones_like(a), a, b, a * a, a * b, b * b], axis=1)
    _, p, q, pp, pq, qq = np.linalg.lstsq(terms, errors[rows, columns].ravel(), rcond=None)[0]
    return -np.linalg.solve([[2 * pp, pq], [pq, 2 * qq]], [p, q])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("rates", "ratios"))
    parser.add_argument("--repeats", type=int, default=100, help="how often (100)")
    parser.add_argument("--count", type=int, default=3000, help="points, of ratios (3000)")
    parser.add_argument("--only", choices=(*_PAIRS, "labels"), help="one pair, of ratios")
    options = parser.parse_args()
    if options.what == "rates":
        rates(options.repeats)
    else:
        ratios(options.repeats, options.count, options.only)


if __name__ == "__main__":
    main()
