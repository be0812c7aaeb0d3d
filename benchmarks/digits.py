"""What HAR buys on the digits: paired over seeds.

python -m benchmarks.digits --seeds=10 --workdir=runs/digits-gain
python -m benchmarks.digits --first_seed=100 --seeds=8 --strengths=0.1,0.3,1,3 --validation \\
    --workdir=runs/digits-tuning
python -m benchmarks.digits --derivatives=exact,first_order --every=1,2,4 --workdir=runs/derivatives

Runs configs/digits.py for every seed and strength, prints the mean and its standard error of
each method's accuracy, and of its gain over ERM at the same seed.
"""

import itertools
import json
import pathlib
import shutil
from typing import NamedTuple

import numpy as np
from absl import app, flags, logging

from configs import digits
from har_jax.config import validate
from har_jax.experiment.algorithm import Experiment
from har_jax.system.files import write_json

_SEEDS = flags.DEFINE_integer("seeds", 10, "How many seeds.")
_FIRST_SEED = flags.DEFINE_integer("first_seed", 0, "The first of them.")
_STRENGTHS = flags.DEFINE_list("strengths", [], "Maximum strengths of HAR; the config's if empty.")
_UNIFORM = flags.DEFINE_list("uniform", [], "Strengths of uniform regularization to compare.")
_DERIVATIVES = flags.DEFINE_list("derivatives", ["exact"], "How HAR's gradient is taken.")
_EVERY = flags.DEFINE_list("every", ["1"], "At each how many-th step HAR takes R.")
_VALIDATION = flags.DEFINE_bool("validation", False, "Evaluate on a part of the training set.")
_RATIO = flags.DEFINE_float("ratio", None, "The imbalance ratio; the config's if not given.")
_WORKDIR = flags.DEFINE_string("workdir", "runs/digits-gain", "Where the runs go.")


def main(_):
    logging.set_verbosity(logging.WARNING)
    strengths = _STRENGTHS.value or [digits.get_config().regularizer.strength]
    ways = itertools.product(strengths, _DERIVATIVES.value, map(int, _EVERY.value))
    variants = [
        Variant("har", float(strength), derivative, every) for strength, derivative, every in ways
    ]
    variants += [Variant("uniform", float(strength)) for strength in _UNIFORM.value]
    accuracies = {}
    for seed in range(_FIRST_SEED.value, _FIRST_SEED.value + _SEEDS.value):
        for variant in variants:
            means = run(seed, variant)
            for name in ("erm", variant.method):
                label = name if name == "erm" else variant.label
                accuracies.setdefault(label, {})[seed] = {
                    part: 100 * mean["test_accuracy"] for part, mean in means[name].items()
                }
    write_json(pathlib.Path(_WORKDIR.value) / "accuracies.json", accuracies)
    for line in table(accuracies):
        print(line)


class Variant(NamedTuple):
    """A method with what is said of it."""

    method: str
    strength: float
    derivative: str = "exact"
    every: int = 1

    @property
    def label(self):
        label = f"{self.method} {self.strength:g}"
        if self.derivative != "exact":
            label += f" {self.derivative}"
        return label if self.every == 1 else f"{label} every {self.every}"


def run(seed, variant):
    """One experiment; the stages that do not depend on the variant are made once a seed."""
    config = digits.get_config()
    config.seed = seed
    config.methods = ("erm", variant.method)
    key = {"har": "strength", "uniform": "uniform_strength"}[variant.method]
    config.regularizer[key] = variant.strength
    config.regularizer.derivative = variant.derivative
    config.regularizer.every = variant.every
    if _RATIO.value is not None:
        config.data.imbalance.ratio = _RATIO.value
    if _VALIDATION.value:
        config.data.evaluate_on = "validation"
        config.data.validation_fraction = 0.25
    validate(config)
    root = pathlib.Path(_WORKDIR.value)
    workdir = root / f"seed-{seed}-{variant.label.replace(' ', '-')}"
    if not workdir.exists():
        for other in root.glob(f"seed-{seed}-*"):
            for stage in ("pretrain", "estimate", "train/erm"):
                shutil.copytree(other / stage, workdir / stage)
            break
    Experiment(config, workdir).run()
    return json.loads((workdir / "report" / "results.json").read_text())["means"]


def table(accuracies):
    parts = [part for part in next(iter(accuracies["erm"].values())) if part != "all"]
    yield "| method | " + " | ".join(f"{p}, accuracy | {p}, gain" for p in parts) + " |"
    yield "| --- |" + " --- | --- |" * len(parts)
    for label, by_seed in accuracies.items():
        cells = []
        for part in parts:
            values = np.array([by_seed[seed][part] for seed in by_seed])
            reference = np.array([accuracies["erm"][seed][part] for seed in by_seed])
            cells += [mean_and_error(values), mean_and_error(values - reference)]
        yield f"| {label} | " + " | ".join(cells) + " |"


def mean_and_error(values):
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():.2f} ± {error:.2f}"


if __name__ == "__main__":
    app.run(main)
