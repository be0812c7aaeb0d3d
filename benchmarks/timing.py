"""Times that a busy machine can be trusted with: taken in turn, medians, ratios round by round."""

import time
from collections.abc import Callable, Mapping

import numpy as np

Run = Callable[[int], None]
"""Makes this many steps and waits until they are done."""


def alternate(runs: Mapping[str, Run], rounds: int, least: float = 0.2) -> dict[str, np.ndarray]:
    """Seconds a step: ``[rounds]`` of each, all measured once in every round, one after the other.

    Args:
      runs: What is compared.
      rounds: How often each is measured; what is measured before is thrown away.
      least: The seconds that a measurement takes at least: steps are repeated until it does.
    """
    steps = {}
    for name, run in runs.items():
        run(2)  # compiles, tunes, allocates
        steps[name] = max(1, round(least / _seconds(run, 1)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(_seconds(run, steps[name]) / steps[name])
    return {name: np.array(values) for name, values in times.items()}


def _seconds(run: Run, steps: int) -> float:
    start = time.perf_counter()
    run(steps)
    return time.perf_counter() - start


def ratio(times: np.ndarray, reference: np.ndarray) -> tuple[float, float, float]:
    """The median of the rounds' ratios, and their quartiles."""
    low, median, high = np.quantile(times / reference, (0.25, 0.5, 0.75))
    return float(median), float(low), float(high)
