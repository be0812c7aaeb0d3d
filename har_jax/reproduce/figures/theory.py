"""Section 2.2 of Cao et al. 2021 in pictures: the toy example, and errors by ratio of strengths."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from har_jax.reproduce.figures.written import Drawn
from har_jax.strength import regression_tau
from har_jax.theory import Design, Steps, draw, smooth, squared_errors

_COLORS = {"left": "#0072b2", "right": "#d55e00"}
_TRUTH = "#0072b2"
_FITTED = "#d55e00"
_MARKS = {"our rule": "o", "the paper's, I = 1": "s", "uniform": "x"}
_WAVES = 4 * np.pi
_FACTORS = 2.0 ** np.arange(-2, 2.5, 0.5)  # of the scale, among which each ratio has its best


def wave(density: Sequence[float], deviation: Sequence[float]) -> Design:
    """A wave in each half of [0, 1], level at 0, 1/2 and 1, where the theorem needs it to be."""
    return Design(
        lambda t: np.cos(_WAVES * t),
        lambda t: -(_WAVES**2) * np.cos(_WAVES * t),
        Steps(np.asarray(density)),
        Steps(np.asarray(deviation)),
    )


def ruled(design: Design, *, noise: bool = True) -> Steps:
    """The rule's rho = tau q up to a scale, of our tau or of the paper's, with I = 1."""
    q, deviation = design.density.values, design.deviation
    assert deviation is not None
    return Steps(q * regression_tau(deviation.values**2 if noise else 1.0, q), design.density.edges)


def toy(count: int = 160, draws: int = 40, seed: int = 3) -> Drawn:
    """Draws figure 3: what is too weak for one half is too strong for the other.

    The left half is frequent, quiet and winding, the right half rare, noisy and plain. A uniform
    strength is the same for every example, rho = q. The scales of the uniform penalties are those
    with the least error on either half, and on both, over all draws, as is that of the rule.
    """

    def truth(t: np.ndarray) -> np.ndarray:
        return np.where(t < 0.5, np.cos(12 * np.pi * t), np.cos(2 * np.pi * (t - 0.5)))

    density, deviation = Steps(np.array([1.7, 0.3])), Steps(np.array([0.15, 0.6]))
    design = Design(truth, np.zeros_like, density, deviation)
    t = np.linspace(0, 1, 1001)
    left = t < 0.5
    scales = np.geomspace(1e-6, 1e-2, 25)
    shapes = {"uniform": density, "adaptive": ruled(design)}
    rng = np.random.default_rng(seed)
    drawn = [draw(design, count, rng) for _ in range(draws)]

    def by_half(x: np.ndarray, y: np.ndarray, rho: Steps, scale: float) -> list[float]:
        squares = (smooth(x, y, rho=rho, lam=scale)(t) - truth(t)) ** 2
        return [float(squares[left].mean()), float(squares[~left].mean())]

    errors = {
        shape: np.mean([[by_half(*data, rho, s) for s in scales] for data in drawn], axis=0)
        for shape, rho in shapes.items()
    }
    chosen = {
        "uniform, best for the left": ("uniform", int(np.argmin(errors["uniform"][:, 0]))),
        "uniform, best for the right": ("uniform", int(np.argmin(errors["uniform"][:, 1]))),
        "uniform, best for both": ("uniform", int(np.argmin(errors["uniform"].sum(axis=1)))),
        "adaptive": ("adaptive", int(np.argmin(errors["adaptive"].sum(axis=1)))),
    }
    x, y = drawn[0]
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    places = figure.subplots(2, 2, sharex=True, sharey=True).flat
    numbers = {}
    for axes, (title, (shape, index)) in zip(places, chosen.items(), strict=True):
        curve = smooth(x, y, rho=shapes[shape], lam=scales[index])
        on_left, on_right = errors[shape][index].tolist()
        axes.plot(x, y, ".", color="#999999", markersize=4, label="observed")
        axes.plot(t, truth(t), color=_TRUTH, label="truth")
        axes.plot(t, curve(t), color=_FITTED, label="fitted")
        axes.axvline(0.5, color="#cccccc", linewidth=1, zorder=0)
        axes.set(title=f"{title}: error {on_left:.3f} left, {on_right:.3f} right")
        penalty = (scales[index] * shapes[shape].values).tolist()
        numbers[title] = {"error": [on_left, on_right], "lambda rho": penalty}
    figure.axes[0].legend(loc="upper right")
    return Drawn(figure, {"n": count, "draws": draws, "seed": seed, **numbers})


def ratios(
    count: int = 2000,
    repeats: int = 40,
    seed: int = 0,
    designs: Mapping[str, Design] | None = None,
) -> Drawn:
    """Draws the error of every ratio of rho between two halves, each at its best scale.

    Args:
      count: Points.
      repeats: Draws, the same for all ratios.
      seed: Of the draws.
      designs: By title; by default three of noise and density.
    """
    designs = designs or {
        "noise 2 times on the right": wave([1.0, 1.0], [0.3, 0.6]),
        "noise 4 times on the right": wave([1.0, 1.0], [0.3, 1.2]),
        "4 times as noisy and as rare": wave([1.6, 0.4], [0.3, 1.2]),
    }
    steps = 2.0 ** np.arange(-3, 5.5, 0.5)
    figure = Figure(figsize=(4 * len(designs), 3.4), layout="constrained")
    places = figure.subplots(1, len(designs), squeeze=False)[0]
    numbers = {}
    for axes, (title, design) in zip(places, designs.items(), strict=True):
        ours, papers = ruled(design), ruled(design, noise=False)
        best_scale = _scale(design, ours, count)
        penalties = [
            Steps(best_scale * factor * np.array([ratio**-0.5, ratio**0.5]))
            for ratio in steps
            for factor in _FACTORS
        ]
        errors = squared_errors(design, count, penalties, repeats, seed)
        errors = errors.reshape(repeats, len(steps), len(_FACTORS))
        best = errors.mean(axis=0).argmin(axis=1)
        at_best = errors[:, np.arange(len(steps)), best]
        mean, error = at_best.mean(axis=0), at_best.std(axis=0, ddof=1) / np.sqrt(repeats)
        axes.plot(steps, mean, color="black", marker=".")
        axes.fill_between(steps, mean - error, mean + error, color="#cccccc")
        marked = {
            "our rule": (ours, "#d55e00"),
            "the paper's, I = 1": (papers, "#0072b2"),
            "uniform": (design.density, "#009e73"),
        }
        of_rules = {}
        for name, (rho, color) in marked.items():
            ratio = float(rho.values[1] / rho.values[0])
            height = float(np.interp(np.log(ratio), np.log(steps), mean))
            axes.axvline(ratio, color=color, linestyle="dashed", linewidth=1)
            axes.plot([ratio], [height], _MARKS[name], color=color, label=f"{name}: {ratio:.2f}")
            of_rules[name] = {"ratio": ratio, "error": height}
        axes.set(title=title, xscale="log", xlabel="ratio of rho, right to left", ylim=(0, None))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.legend(loc="lower right")
        numbers[title] = {
            "ratios": steps.tolist(),
            "error": mean.tolist(),
            "standard_error": error.tolist(),
            "rules": of_rules,
        }
    places[0].set(ylabel="mean squared error")
    return Drawn(figure, {"n": count, "repeats": repeats, "seed": seed, "designs": numbers})


def _scale(design: Design, shape: Steps, count: int) -> float:
    """The geometric mean of the two halves' best penalties, by the theorem."""
    assert design.deviation is not None
    curved = _WAVES**4 / 2  # the mean square of a wave's second derivative
    best = (design.deviation.values**2 * design.density.values**1.5 / (16 * count * curved)) ** 0.4
    return float(np.exp(np.mean(np.log(best / 2))))
