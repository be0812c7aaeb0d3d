"""What HAR buys on the digits: paired over seeds.

python -m benchmarks.digits --seeds=10 --workdir=runs/digits-gain
python -m benchmarks.digits --first_seed=100 --seeds=8 --strengths=0.1,0.3,1,3 --validation \\
    --workdir=runs/digits-tuning

Runs configs/digits.py for every seed and strength, prints the mean and its standard error of
each method's accuracy, and of its gain over ERM at the same seed.
"""

import json
import pathlib
import shutil

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
_VALIDATION = flags.DEFINE_bool("validation", False, "Evaluate on a part of the training set.")
_RATIO = flags.DEFINE_float("ratio", None, "The imbalance ratio; the config's if not given.")
_WORKDIR = flags.DEFINE_string("workdir", "runs/digits-gain", "Where the runs go.")


def main(_):
    logging.set_verbosity(logging.WARNING)
    variants = [
        ("har", float(s)) for s in _STRENGTHS.value or [digits.get_config().regularizer.strength]
    ]
    variants += [("uniform", float(strength)) for strength in _UNIFORM.value]
    accuracies = {}
    for seed in range(_FIRST_SEED.value, _FIRST_SEED.value + _SEEDS.value):
        for method, strength in variants:
            means = run(seed, method, strength)
            for name in ("erm", method):
                label = name if name == "erm" else f"{name} {strength:g}"
                accuracies.setdefault(label, {})[seed] = {
                    part: 100 * mean["test_accuracy"] for part, mean in means[name].items()
                }
    write_json(pathlib.Path(_WORKDIR.value) / "accuracies.json", accuracies)
    for line in table(accuracies):
        print(line)


def run(seed, method, strength):
    """One experiment; the stages that do not depend on the strength are made once a seed."""
    config = digits.get_config()
    config.seed = seed
    config.methods = ("erm", method)
    key = {"har": "strength", "uniform": "uniform_strength"}[method]
    config.regularizer[key] = strength
    if _RATIO.value is not None:
        config.data.imbalance.ratio = _RATIO.value
    if _VALIDATION.value:
        config.data.evaluate_on = "validation"
        config.data.validation_fraction = 0.25
    validate(config)
    root = pathlib.Path(_WORKDIR.value)
    workdir = root / f"seed-{seed}-{method}-{strength:g}"
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
