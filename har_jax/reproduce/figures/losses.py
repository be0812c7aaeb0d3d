"""Losses of clean, rare and mislabelled examples: figure 1 of Cao et al. 2021."""

import numpy as np

from har_jax.config import ConfigError
from har_jax.data.protocol import TrainingData
from har_jax.experiment.trainer import Trainer
from har_jax.experiment.workdir import StageError
from har_jax.report.figures import loss_panels
from har_jax.report.results import kinds_of_examples
from har_jax.reproduce.figures.runs import Made, config_of
from har_jax.reproduce.figures.written import Drawn
from har_jax.system.files import read_arrays

_QUARTILES = (0.25, 0.5, 0.75)


def draw(made: Made) -> Drawn:
    """Draws the losses of a run: out of sample, of a pre-trained model, and of plain training.

    Raises:
      StageError: if nothing was trained plainly, or the data are no longer those of the run.
    """
    path = made.workdir / "train" / "erm" / "evaluation.npz"
    if not path.exists():
        raise StageError(f"{made.workdir} has no plain training, erm, whose losses could be drawn")
    config = config_of(made)
    data: TrainingData = Trainer(config, made.workdir).data
    loss = read_arrays(path)["train_loss"]
    if len(loss) != len(data.train):
        raise StageError(
            f"{path} has losses of {len(loss)} examples, and the data have {len(data.train)}: "
            "they are no longer those of the run"
        )
    kinds = kinds_of_examples(data)
    if sum(np.any(members) for members in kinds.values()) < 2:
        raise ConfigError(
            f"{made.workdir} has no rare and no mislabelled examples to tell from the others"
        )
    panels = {}
    held_out = made.workdir / "pretrain" / "held_out.npz"
    if held_out.exists():
        said = read_arrays(held_out)
        panels["out of sample"] = (said["loss"], said["index"])
    panels["of plain training"] = (loss, np.arange(len(loss)))
    numbers = {
        title: {
            kind: _summary(of[members[rows] & np.isfinite(of)]) for kind, members in kinds.items()
        }
        for title, (of, rows) in panels.items()
    }
    # How many of the largest losses, as many as there are mislabelled examples, are of right ones.
    for title, (of, rows) in panels.items() if "noisy" in kinds else ():
        count = int(kinds["noisy"][rows].sum())
        largest = np.argsort(-np.nan_to_num(of))[:count]
        numbers[title]["of the largest, as many as are mislabelled"] = {
            kind: int(members[rows][largest].sum()) for kind, members in kinds.items()
        }
    return Drawn(loss_panels(panels, kinds), {"run": made.config["data.source"], **numbers})


def _summary(losses: np.ndarray) -> dict[str, float | int | list[float]]:
    if not losses.size:
        return {"n": 0}
    return {
        "n": len(losses),
        "mean": float(losses.mean()),
        "quartiles": [float(q) for q in np.quantile(losses, _QUARTILES)],
    }
