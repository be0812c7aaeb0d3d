"""What is trained and tested on, in a few lines for people to check before it begins."""

from collections.abc import Sequence

import numpy as np

from har_jax.data.protocol import TrainingData
from har_jax.system.terminal import some


def describe(data: TrainingData) -> list[str]:
    """The splits with their origin, the classes with their counts, what was left out, the noise."""
    lines = []
    for split, examples in data.splits.items():
        origin = data.found.splits.get(split)
        lines.append(f"{split}: {len(examples)} examples{f', of {origin}' if origin else ''}")
    summary = data.summary()
    counts = summary["train_count"], summary["test_count"]
    classes = [
        f"{name} {train} + {test}"
        for name, train, test in zip(data.class_names, *counts, strict=True)
    ]
    lines.append(f"{len(classes)} classes, of train + test: {some(classes)}")
    if data.train.groups is not None:
        sizes = np.bincount(data.train.groups, minlength=len(data.group_names)).tolist()
        lines.append(f"{len(sizes)} groups, of train: {_by_name(data.group_names, sizes)}")
    lines += [f"{what}: {count}" for what, count in data.found.counts.items()]
    if data.labels_from is not None:
        lines.append(
            f"labels of {data.labels_from}: {100 * summary['mislabelled']:.1f}% are not the "
            "source's own, which count as true"
        )
    if data.noisy_classes:  # of which it is known what is wrong
        for key in ("true_count", "flip_rate", "mislabelled_count"):
            lines.append(f"{key}: {_by_name(data.class_names, summary[key])}")
    return lines


def _by_name(names: Sequence[str], values: Sequence[float | None]) -> str:
    return some([f"{name} {value}" for name, value in zip(names, values, strict=True)])
