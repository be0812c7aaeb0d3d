"""What runs scored on what was held out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from ml_collections import config_dict

from har_jax.config import ConfigError
from har_jax.experiment.workdir import StageError

FRACTION = 0.2
"""Of the training set, held out where nothing else is asked for."""

_Results = Mapping[str, Any]
_mean = lambda part: lambda results, method: results["means"][method][part]["test_accuracy"]
_of_classes = lambda key: lambda results, method: results["class_means"][method][key]
SCORES: Mapping[str, Callable[[_Results, str], float | None]] = {
    "mean_per_class": _of_classes("all"),
    "mean_per_group": _mean("all"),
    "accuracy": _of_classes("examples"),
    "noisy": _mean("noisy"),
    "rare": _mean("rare"),
}
"""What of a run's ``results.json`` is compared, by method: accuracies on what was held out, against
the labels that it has. The first is the default. The last two are of the classes that
``config.data.noise`` and ``config.data.imbalance`` are of."""
_NEEDED = {"noisy": "noise", "rare": "imbalance"}


def refuse_score(score: str, config: config_dict.ConfigDict) -> None:
    """Raises :class:`har_jax.config.ConfigError` if no class of a config has this score."""
    if (section := _NEEDED.get(score)) and config.data[section].kind == "none":
        raise ConfigError(
            f"--score={score} is of the classes that config.data.{section} is of, and "
            f"config.data.{section}.kind='none': take --score={next(iter(SCORES))}"
        )


def scores(
    results: Sequence[Sequence[_Results | None]], method: str, score: str
) -> Float[np.ndarray, "V S"]:
    """What runs scored, as shares; NaN of those that diverged, or could not train the method.

    Args:
      results: ``[V, S]``, by value and seed, see :func:`har_jax.experiment.runs.execute`.
      method: The name by which they have it.
      score: One of :data:`SCORES`.

    Raises:
      StageError: if nothing that was held out counts for it.
    """
    return np.array([[_share(one, method, score) for one in row] for row in results], float)


def _share(results: _Results | None, method: str, score: str) -> float:
    if results is None or method in results.get("ended", {}):
        return float("nan")
    share = SCORES[score](results, method)
    if share is None:
        raise StageError(f"nothing that was held out counts for --score={score}: take another")
    return share
