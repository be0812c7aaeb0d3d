"""What methods buy over plain training, paired over seeds.

python -m benchmarks.gains --seeds=10 --variant=har \\
    --variant="uniform regularizer.uniform_strength=1" \\
    --variant="har regularizer.derivative=first_order regularizer.every=2"
python -m benchmarks.gains --data=cifar10_small --seeds=3 --variant=har

A variant is a method and what it changes in the config. Runs each of them at every seed, and
prints the mean and the standard error of its accuracy, and of its gain over ERM at the same seed,
for each part of the classes; with --shots also for many-, medium- and few-shot classes, where there
are such. What is complete in the workdir is not run again. What a method has to be told, as its
strength, is chosen beforehand by python -m har_jax.tune --config=benchmarks/configs/DATA.py.
"""

import ast
import json
import pathlib
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags, logging

from har_jax.config import files, own, validate
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.runs import take
from har_jax.report import seeds
from har_jax.system.files import write_json

_DATA_OF = {path.stem: path for path in pathlib.Path(__file__).parent.glob("configs/*.py")}
_DATA_OF["digits"] = files.packaged()["digits"]
_SHARED = ("pretrain", "start")  # made once a seed, by the first that does

_DATA = flags.DEFINE_enum("data", "digits", sorted(_DATA_OF), "Of benchmarks/configs/.")
_DATA_DIR = flags.DEFINE_string("data_dir", None, "Of TFDS.")
_SEEDS = flags.DEFINE_integer("seeds", 10, "How many seeds.")
_FIRST_SEED = flags.DEFINE_integer("first_seed", 0, "The first of them.")
_VARIANTS = flags.DEFINE_multi_string("variant", ["har"], "A method, and KEY=VALUE of the config.")
_ALL = flags.DEFINE_multi_string("all", [], "KEY=VALUE for all of them, ERM included.")
_SHOTS = flags.DEFINE_bool("shots", False, "Many-, medium- and few-shot classes as well.")
_WORKDIR = flags.DEFINE_string("workdir", "runs/gains", "Where the runs go.")


class Variant(NamedTuple):
    """A method, and what it changes in the config, by key."""

    method: str
    changes: dict[str, Any]

    @property
    def label(self) -> str:
        changed = (f"{key.rpartition('.')[2]}={value}" for key, value in self.changes.items())
        return " ".join((self.method, *changed))


def main(_):
    logging.set_verbosity(logging.WARNING)
    variants = [Variant("erm", {})]
    for text in _VARIANTS.value:
        method, *pairs = text.split()
        variants.append(Variant(method, _changes(pairs)))
    accuracies = {}
    for seed in chosen_seeds():
        for variant in variants:
            results = run(seed, variant)
            name = own.method_name(variant.method)
            found = seeds.shares_of(results, name, shots=_SHOTS.value)
            accuracies.setdefault(variant.label, {})[seed] = found
        write_json(workdir() / "accuracies.json", accuracies)
    numbers = seeds.side_by_side(accuracies, first="erm")
    for line in [*table(numbers), "", *by_seed(numbers)]:
        print(line)


def config_of(data):
    """That of configs/digits.py, or of a file of benchmarks/configs/, by its name."""
    return files.load(_DATA_OF[data])


def _changes(pairs):
    changes = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        try:
            changes[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):  # a name
            changes[key] = value
    return changes


def run(seed, variant):
    """One experiment; the stages that do not depend on the variant are made once a seed."""
    config = config_at(seed, variant)
    folder = workdir() / f"seed-{seed}" / variant.label.replace(" ", "-")
    if not folder.exists():
        for other in workdir().glob(f"seed-{seed}/*"):
            take(_SHARED, other, folder)
    Experiment(config, folder).run()
    return json.loads((folder / "report" / "results.json").read_text())


def config_at(seed, variant):
    """The config of --data at a seed, with what --all and the variant change."""
    config = config_of(_DATA.value)
    config.seed = seed
    config.methods = (variant.method,)
    config.data.data_dir = _DATA_DIR.value
    config.update_from_flattened_dict(_changes(_ALL.value) | variant.changes)
    validate(config)
    return config


def chosen_seeds():
    """Those of --seeds and --first_seed."""
    return range(_FIRST_SEED.value, _FIRST_SEED.value + _SEEDS.value)


def workdir():
    """That of --workdir."""
    return pathlib.Path(_WORKDIR.value)


def table(numbers):
    parts = numbers["parts"]
    yield "| method | " + " | ".join(f"{p}, accuracy | {p}, gain" for p in parts) + " |"
    yield "| --- |" + " --- | --- |" * len(parts)
    for label, row in numbers["rows"].items():
        of = [row["parts"][part] for part in parts]
        cells = [
            cell for each in of for cell in (seeds.accuracy(each), seeds.gain_of(each["gain"]))
        ]
        yield f"| {label} | " + " | ".join(cells) + " |"


def by_seed(numbers):
    head, *rows = seeds.by_seed(numbers)
    yield f"{' / '.join(numbers['parts'])}:"
    yield ""
    yield f"| {' | '.join(head)} |"
    yield "| --- |" + " --- |" * (len(head) - 1)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def mean_and_error(values):
    """The mean and its standard error, as a cell of a table."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():.2f} ± {error:.2f}"


if __name__ == "__main__":
    app.run(main)
