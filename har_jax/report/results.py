"""The numbers of a report: one dictionary, as ``results.json`` holds it."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool

from har_jax.data.protocol import TrainingData
from har_jax.estimation.estimate import Estimated
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.report.answer import answer_of, gains
from har_jax.report.given import lines as told
from har_jax.report.long_tail import long_tail
from har_jax.report.neighbourhoods import described
from har_jax.report.neighbourhoods import told as of_neighbourhoods
from har_jax.report.relabel import summary_of_suspicion
from har_jax.report.relabel import told as of_suspicion
from har_jax.strength import GroupStatistics
from har_jax.system import seeds
from har_jax.system.terminal import some
from har_jax.train.peaks import STANDS_OUT

SEEDS = ("test split", "meta", "noise", "imbalance", "pretrain split", "pretrain", "train")


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What the stages left.

    Attributes:
      config: By dotted key.
      data: What was trained on.
      held_out: What pre-trained models said of what they did not see; None where no method
        needed it.
      estimated: Of the training examples and their neighbourhoods; None where no method needed it.
      errors: How often labels of each group are contradicted out of sample; None as well.
      folds: ``observed_error``, ``standard_error`` and ``validation_count`` of every group,
        ``[F, G]``, as each fold has them; None as well.
      evaluations: By method: ``strength`` of every training example, and ``loss`` and
        ``prediction`` of every ``train_`` and ``test_`` example; ``top5`` of test examples, and
        ``prediction`` and ``top5`` of those of other test sets.
      given: By method: what earlier stages found out for it.
      metrics: By method, and of ``pretrain`` where there is one: the records of training.
    """

    config: Mapping[str, Any]
    data: TrainingData
    held_out: OutOfSample | None
    estimated: Estimated | None
    errors: GroupStatistics | None
    folds: Mapping[str, np.ndarray] | None
    evaluations: Mapping[str, Mapping[str, np.ndarray]]
    given: Mapping[str, Mapping[str, Any]]
    metrics: Mapping[str, Sequence[Mapping[str, float]]]


def summarize(inputs: Inputs) -> dict[str, Any]:
    """Computes the numbers of the report.

    Accuracies are shares. That of several groups is the mean of theirs, each counting
    alike; groups without test examples are left out, and have null as their own. Of classes,
    which groups may be or not, there is what :func:`har_jax.report.long_tail.long_tail` says.
    ``answer`` is one sentence, ``gains`` the numbers that it is made of.
    """
    data = inputs.data
    count = len(data.group_names)
    rows_of = {
        split: _rows_by_group(examples.group_ids(), count)
        for split, examples in {"train": data.train, "test": data.test}.items()
    }
    members_of, flipped = parts(data), data.flipped
    noisy, rare = set(members_of["noisy"]), set(members_of["rare"])
    groups = []
    for index, name in enumerate(data.group_names):
        in_train, in_test = rows_of["train"][index], rows_of["test"][index]
        groups.append(
            {
                "group": index,
                "name": name,
                "noisy": index in noisy,
                "rare": index in rare,
                "n": len(in_train),
                "mislabelled": int(np.sum(flipped[in_train])),
                **_estimates(inputs, index, in_train),
                "test_n": len(in_test),
                "methods": {
                    method: {
                        "strength": _mean(evaluation["strength"][in_train]),
                        "train_accuracy": _accuracy(
                            evaluation["train_prediction"][in_train],
                            data.train.labels[in_train],
                        ),
                        "test_accuracy": _accuracy(
                            evaluation["test_prediction"][in_test],
                            data.test.labels[in_test],
                        ),
                        "test_top5": _share(evaluation["test_top5"][in_test]),
                    }
                    for method, evaluation in inputs.evaluations.items()
                },
            }
        )
    config = dict(inputs.config)
    determining = {key: value for key, value in config.items() if not key.endswith("_every")}
    text = json.dumps(determining, sort_keys=True)
    results = {
        "fingerprint": hashlib.sha256(text.encode()).hexdigest(),
        "config": config,
        "seed": config["seed"],
        "seeds": {name: seeds.derive(config["seed"], name) for name in SEEDS},
        "data": data.summary(),
        "test_digest": data.test_digest,
        "unreadable": {
            method: {
                split: int(np.sum(evaluation[f"{split}_prediction"] < 0))
                for split in ("train", "test")
            }
            for method, evaluation in inputs.evaluations.items()
        },
        "skipped_steps": {
            run: sum(record.get("skipped", 0) for record in records)
            for run, records in inputs.metrics.items()
        },
        "peaks": {
            run: max(peaks, key=lambda peak: peak["peak_ratio"])
            for run, records in inputs.metrics.items()
            if (peaks := [record for record in records if record.get("peak_ratio", 0) > STANDS_OUT])
        },
        "given": {method: dict(told) for method, told in inputs.given.items()},
        "groups": groups,
        "neighbourhoods": None
        if inputs.estimated is None
        else described(config, data, inputs.estimated),
        "suspicion": summary_of_suspicion(inputs.held_out, data),
        "means": {
            method: {
                part: {
                    "strength": _mean_of(groups, method, "strength", members),
                    "train_accuracy": _mean_of(groups, method, "train_accuracy", members),
                    "test_accuracy": _mean_of(groups, method, "test_accuracy", members),
                    "test_top5": _mean_of(groups, method, "test_top5", members),
                }
                for part, members in members_of.items()
            }
            for method in inputs.evaluations
        },
        **long_tail(
            data,
            {name: each["test_prediction"] for name, each in inputs.evaluations.items()},
            members_of if data.train.groups is None else {},
        ),
        "other_tests": {
            name: {
                method: {
                    "accuracy": _accuracy(evaluation[f"{name}_prediction"], examples.labels),
                    "top5": _share(evaluation[f"{name}_top5"]),
                }
                for method, evaluation in inputs.evaluations.items()
            }
            for name, examples in data.others.items()
        },
        "gains": _gains(inputs, members_of),
    }
    return {"answer": answer_of(results), **results}


def notes(results: Mapping[str, Any]) -> list[str]:
    """What has to be said beside the numbers: of what was left out, or given, and of labels."""
    unreadable = {
        split: max(counts[split] for counts in results["unreadable"].values())
        for split in ("train", "test")
    }
    lines = [
        f"{count} {split} images could not be read, and are left out"
        for split, count in unreadable.items()
        if count
    ]
    skipped = {run: count for run, count in results["skipped_steps"].items() if count}
    lines += [f"{run} left out {count} steps" for run, count in skipped.items()]
    lines += _of_labels(results["data"])
    lines += [*told(results["given"]), *of_neighbourhoods(results), *of_suspicion(results)]
    return lines + [
        f"up to step {peak['step']} of {run}, R of training example {peak['peak_example']} was "
        f"{peak['peak_norm']:.3g}, over {peak['peak_ratio']:.0f} times the median of its batch"
        for run, peak in results["peaks"].items()
    ]


def _of_labels(data: Mapping[str, Any]) -> list[str]:
    """Where labels come from that are not the source's own, and how many of each class differ."""
    lines = []
    if "corrected_by" in data:
        right = data["corrected_right"]
        known = "" if right is None else f", {right} of which are right now"
        lines.append(
            f"{data['corrected']} labels are as {data['corrected_by']} has them, in place of those "
            f"that were given{known}"
        )
    if "labels_from" not in data:
        return lines
    rates = [
        f"{name} {100 * rate:.1f}%"
        for name, rate in zip(data["classes"], data["flip_rate"], strict=True)
        if rate is not None
    ]
    return [
        *lines,
        f"labels are of {data['labels_from']}: {100 * data['mislabelled']:.1f}% are not the "
        f"source's own, which count as true; by true class {some(rates)}",
    ]


def parts(data: TrainingData) -> dict[str, tuple[int, ...]]:
    """The groups that are averaged over: all, noisy, rare, and clean, which is not noisy."""
    every = tuple(range(len(data.group_names)))
    noisy, rare = (_groups_of(data, classes) for classes in (data.noisy_classes, data.rare_classes))
    clean = tuple(group for group in every if group not in noisy)
    return {"all": every, "noisy": noisy, "rare": rare, "clean": clean}


def kinds_of_examples(data: TrainingData) -> dict[str, Bool[np.ndarray, " n"]]:
    """The training examples as in the paper's figure 1; by frequency where right is not known."""
    rare = np.isin(data.train.labels, data.rare_classes)
    if not data.knows_wrong_labels:
        return {"frequent": ~rare, "rare": rare} if np.any(rare) else {"all": ~rare}
    return {
        "clean": ~data.flipped & ~rare,
        "rare": ~data.flipped & rare,
        "noisy": data.flipped,
    }


def _gains(inputs: Inputs, members_of: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """By method but the first and by part of the groups, of what all methods could read."""
    test, evaluations = inputs.data.test, inputs.evaluations
    said = {method: evaluation["test_prediction"] for method, evaluation in evaluations.items()}
    read = np.all([prediction >= 0 for prediction in said.values()], axis=0)
    right = {name: (prediction == test.labels)[read] for name, prediction in said.items()}
    found = gains(right, test.group_ids()[read], members_of)
    return {
        method: {part: difference._asdict() for part, difference in of.items()}
        for method, of in found.items()
    }


def _estimates(inputs: Inputs, group: int, members: np.ndarray) -> dict[str, Any]:
    names = ("validation_n", "validation_error", "validation_standard_error")
    estimated, errors, folds = inputs.estimated, inputs.errors, inputs.folds
    if estimated is None or errors is None or folds is None:
        return {**dict.fromkeys(names), "folds": [], "noise": None, "tau": None}
    counted = lambda n, error, standard_error: {
        names[0]: int(n),
        names[1]: float(error) if n else None,
        names[2]: float(standard_error) if n else None,
    }
    columns = ("validation_count", "observed_error", "standard_error")
    parts = zip(*(folds[column] for column in columns), strict=True)
    return {
        **counted(*(getattr(errors, column)[group] for column in columns)),
        "folds": [counted(*(column[group] for column in part)) for part in parts],
        "noise": _mean(estimated.noise[members]),
        "tau": _mean(estimated.tau[members]),
    }


def _rows_by_group(groups: np.ndarray, count: int) -> list[np.ndarray]:
    """The rows of each group, in their order."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.searchsorted(groups[order], np.arange(1, count)))


def _accuracy(prediction: np.ndarray, labels: np.ndarray) -> float | None:
    read = prediction >= 0  # -1: it could not be
    return _mean(prediction[read] == labels[read])


def _share(hits: np.ndarray) -> float | None:
    return _mean(hits[hits >= 0])


def _groups_of(data: TrainingData, classes: Sequence[int]) -> tuple[int, ...]:
    """The groups that are these classes; none where groups are something else."""
    return tuple(classes) if data.train.groups is None else ()


def _mean_of(
    groups: Sequence[Mapping[str, Any]], method: str, key: str, members: Sequence[int]
) -> float | None:
    values = [groups[index]["methods"][method][key] for index in members]
    return _mean([value for value in values if value is not None])


def _mean(values: np.ndarray | Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None
