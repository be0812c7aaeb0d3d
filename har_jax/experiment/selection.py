"""The examples that a method is trained on, where it does not take all: selected round by round."""

import dataclasses
import pathlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from ml_collections import config_dict

from har_jax.config import own
from har_jax.data import DataError
from har_jax.data.apart import Parts
from har_jax.data.splits import IN_ONE_PART
from har_jax.estimation.cross_validation import (
    AgreementError,
    Selection,
    candidate_batch_size,
    next_round,
    noise_rate_of_selected,
    nothing_selected,
    warm_up,
)
from har_jax.estimation.noise_rate import warn_of_lost_classes
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.experiment.build import method_options
from har_jax.experiment.pretraining import joined, predict_unseen
from har_jax.experiment.trainer import Trainer
from har_jax.experiment.workdir import StageError
from har_jax.methods import CrossValidation
from har_jax.options import make
from har_jax.system import seeds
from har_jax.system.files import damaged, read_arrays, write_arrays
from har_jax.system.processes import is_first
from har_jax.train.feed import Beside

_FILE = "selection.npz"


def cross_validation_of(method: str, config: config_dict.ConfigDict) -> CrossValidation:
    """How the examples are selected that a method is trained on, by its name in the config."""
    selects = own.entry_of(method).selects
    assert selects is not None
    made: CrossValidation = make(selects, chosen=method_options(method, config))
    return made


def select(trainer: Trainer, path: pathlib.Path, name: str, chosen: CrossValidation) -> None:
    """Selects the examples that a method is trained on.

    Each round leaves ``round-R/held_out.npz``, the arrays of
    :class:`har_jax.estimation.out_of_sample.OutOfSample` of its candidates, and is read where it
    has; the last one leaves what :func:`read_selection` reads. Rounds end where there are too few
    candidates for two halves.

    Args:
      trainer: Of the data.
      path: The folder.
      name: Of the method.
      chosen: How.

    Raises:
      StageError: if the first model has learned nothing.
    """
    train, num_classes = trainer.data.train, trainer.data.num_classes
    selection = nothing_selected(len(train))
    for number in range(chosen.rounds):
        halves = _halves(trainer, selection, number)
        if halves is None:
            break
        folder = path / f"round-{number}"
        said = _said(trainer, folder, selection, halves, chosen.share)
        try:
            selection = next_round(selection, number, said, train.labels, num_classes, chosen.noise)
        except AgreementError as error:
            raise StageError(
                f"{name}: {error}: train it longer (config.method.{name}.share, or "
                "config.train.epochs), or leave this method out"
            ) from error
        print(
            f"{name}: {len(selection.selected)} of {len(train)} examples are selected after round "
            f"{number + 1} of {chosen.rounds}, {len(selection.candidates)} are candidates"
        )
    kept = np.where(selection.round >= 0, train.labels, -1)
    warn_of_lost_classes(
        name, train.labels, kept, trainer.data.class_names, f"config.method.{name}.share"
    )
    trainer.describe_data(path)
    if is_first():
        write_arrays(
            path / _FILE,
            round=selection.round,
            removed=selection.removed,
            noise_rate=np.array(selection.noise_rate),
        )


def read_selection(path: pathlib.Path) -> Selection:
    """What :func:`select` left.

    Raises:
      OSError: if that is not there, or damaged.
    """
    file = path / _FILE
    arrays = read_arrays(file)
    try:
        return Selection(arrays["round"], arrays["removed"], float(arrays["noise_rate"]))
    except KeyError as error:  # of a version that knew other columns
        raise damaged(file, error) from error


def candidates_beside(trainer: Trainer, selection: Selection) -> dict[str, Beside]:
    """The candidates that come with every batch of those that are selected; none if there are few.

    As many as :func:`har_jax.estimation.cross_validation.candidate_batch_size` says, rounded down
    to what falls into equal parts for the devices, one for each at least.
    """
    index = selection.candidates
    rows = candidate_batch_size(len(index), len(selection.selected), trainer.config.batch_size)
    if not rows:
        return {}
    rows = max(rows // trainer.mesh.size, 1) * trainer.mesh.size
    train = trainer.data.train.take(index)
    return {"candidate": Beside({"inputs": train.inputs, "labels": train.labels}, rows)}


def known_by(
    trainer: Trainer, method: str, selection: Selection, beside: Mapping[str, Beside]
) -> dict[str, Any]:
    """What a method is given that is trained on what was selected, by the names that it takes.

    Args:
      trainer: Of the data.
      method: As the config names it.
      selection: What was selected.
      beside: What its batches have beside them; without candidates there is nothing to warm up for.
    """
    kind = cross_validation_of(method, trainer.config).noise
    rate = noise_rate_of_selected(selection.noise_rate, trainer.data.num_classes, kind)
    known: dict[str, Any] = {"selected_noise_rate": rate}
    if "candidate" not in beside:
        known["warm_up"] = 1.0
    elif method_options(method, trainer.config).get("warm_up") is None:
        known["warm_up"] = warm_up(selection.noise_rate, kind)
    return {name: value for name, value in known.items() if own.entry_of(method).takes(name)}


def _halves(
    trainer: Trainer, selection: Selection, number: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """The candidates in two, equal ones together; None where too few are left for that."""
    config, candidates = trainer.config, selection.candidates
    examples = trainer.data.train.take(candidates)
    seed = seeds.derive(config.seed, f"select round {number}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", IN_ONE_PART)  # few are left of some classes
        try:
            parts = Parts(bool(config.data.keep_groups_whole))
            first, second = parts.split(examples, len(candidates) // 2, seed)
        except DataError:
            if number == 0:
                raise
            return None
    return candidates[first], candidates[second]


def _said(
    trainer: Trainer,
    folder: pathlib.Path,
    selection: Selection,
    halves: tuple[np.ndarray, np.ndarray],
    share: float,
) -> OutOfSample:
    """What is said of each half by a model that is trained on the other and on what is selected."""
    file = folder / "held_out.npz"
    if file.exists():
        return OutOfSample(**read_arrays(file))
    config, train = trainer.config, trainer.data.train
    epochs = share * config.train.epochs
    results = []
    for half, other in enumerate(reversed(halves)):
        of_model = folder / f"half-{half}"
        title = f"select {folder.name} {of_model.name}"
        fitted = train.take(np.union1d(selection.selected, halves[half]))
        results.append(
            predict_unseen(
                trainer,
                fitted,
                train.take(other),
                of_model,
                epochs,
                title,
                schedule_epochs=config.train.epochs,
            )
        )
    said = joined(halves[::-1], [1, 0], results)
    if is_first():
        write_arrays(file, **dataclasses.asdict(said))
    return said
