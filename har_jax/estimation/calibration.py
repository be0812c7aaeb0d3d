"""Probabilities that are as sure as they should be."""

import numpy as np
from jaxtyping import Float, Int

_LEAST = 1e-9  # which a probability of 0 counts as
_LOW, _HIGH = 0.05, 20.0  # temperatures


def temperature(probabilities: Float[np.ndarray, "m K"], labels: Int[np.ndarray, " m"]) -> float:
    r"""The temperature T under which held-out labels are likeliest, by softmax of :math:`\log p/T`.

    Temperature scaling, Guo et al. 2017 (arXiv 1706.04599). A network that has learned its examples
    by heart is too sure of others, and T is above 1. Labels may be wrong: then the probabilities
    become those of the labels that are given, noise and all, which is what a noise is read from.

    Args:
      probabilities: ``[m, K]``, of examples that were held out.
      labels: ``[m]``, theirs.

    Returns:
      T, between 0.05 and 20.
    """
    from scipy import optimize  # takes most of a second

    logs = np.log(np.maximum(probabilities, _LEAST))
    rows = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        scaled = logs / np.exp(log_temperature)
        largest = scaled.max(axis=1)
        total = np.log(np.exp(scaled - largest[:, None]).sum(axis=1)) + largest
        return float(np.mean(total - scaled[rows, labels]))

    bounds = np.log(_LOW), np.log(_HIGH)
    return float(np.exp(optimize.minimize_scalar(loss, bounds=bounds, method="bounded").x))


def scaled(probabilities: Float[np.ndarray, "m K"], temperature: float) -> Float[np.ndarray, "m K"]:
    """Softmax of the logarithms of ``probabilities`` over a temperature."""
    powers = (probabilities / probabilities.max(axis=1, keepdims=True)) ** (1 / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


def calibrated(
    probabilities: Float[np.ndarray, "n K"],
    labels: Int[np.ndarray, " n"],
    fold: Int[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, "n K"], dict[str, float]]:
    """Out-of-sample probabilities, each fold's at a temperature of its own, and the temperatures.

    Args:
      probabilities: ``[n, K]``, of the training examples; rows of NaN where nothing is known.
      labels: ``[n]``, as trained on.
      fold: ``[n]``, by whose model each was held out; -1 where nothing is known.

    Raises:
      ValueError: if a row of a fold has a number that is negative or not finite, or 0 only.
    """
    found = np.full(probabilities.shape, np.nan)
    temperatures = {}
    for part in np.unique(fold[fold >= 0]).tolist():
        rows = np.flatnonzero(fold == part)
        known = np.asarray(probabilities[rows], np.float64)
        good = np.all((known >= 0) & np.isfinite(known), axis=1) & np.any(known > 0, axis=1)
        if not np.all(good):
            row = int(np.argmin(good))
            raise ValueError(f"row {rows[row]} of fold {part} is no probabilities: {known[row]}")
        temperatures[str(part)] = temperature(known, labels[rows])
        found[rows] = scaled(known, temperatures[str(part)])
    return found, temperatures
