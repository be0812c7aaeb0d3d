"""What methods buy over plain training, paired over seeds.

python -m benchmarks.gains --seeds=10 --variant=har \\
    --variant="uniform regularizer.uniform_strength=1" \\
    --variant="har regularizer.derivative=first_order regularizer.every=2"
python -m benchmarks.gains --data=cifar10_small --seeds=3 --variant=har

A variant is a method and what it changes in the config. Runs each of them at every seed, and
prints the mean and the standard error of its accuracy, and of its gain over ERM at the same seed,
for each part of the classes; with --shots also for many-, medium- and few-shot classes, where there
are such. What is complete in the workdir is not run again. What a method has to be told, as its
strength, is chosen beforehand by python -m har_jax.tune.
"""

import ast
import json
import pathlib
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags, logging

from configs import digits
from har_jax.config import own, recipes, validate
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.runs import take
from har_jax.report.long_tail import SHOTS
from har_jax.system.files import write_json


def _cifar10_small():
    config = recipes.noisy_and_rare(ratio=10)
    recipes.shrink(config)
    return config


def _digits_step():
    """Right labels, the last half of the classes with a tenth of the examples."""
    config = digits.get_config()
    config.data.noise.kind = "none"
    config.data.noise.groups = config.data.noise.rate = None
    config.data.imbalance.classes = tuple(range(5, 10))
    config.data.imbalance.ratio = 10.0
    return config


def _digits_one_sided():
    """3 called 8 and 4 called 9, and not the reverse."""
    config = digits.get_config()
    config.data.noise.kind = "asymmetric"
    config.data.noise.groups = config.data.noise.rate = None
    config.data.noise.flips = ((3, 8, 0.4), (4, 9, 0.4))
    return config


def _imdb_small():
    config = recipes.imdb()
    recipes.shrink(config)
    return config


def _cifar10n_small():
    """5,000 images with labels that people gave, in the file that --all=data.labels=FILE names."""
    config = recipes.annotated(10, "cifar10n_aggregate.npz")
    recipes.shrink(config)
    config.data.train_size = 5000
    config.pretrain.epochs = config.train.epochs = 30.0
    config.optimizer.decay_epochs = (20.0, 25.0)
    return config


def _cifar10_small_longtail():
    config = recipes.long_tailed(10, ratio=100)
    recipes.shrink(config)
    return config


_CONFIGS = {
    "digits": digits.get_config,
    "digits_step": _digits_step,
    "digits_one_sided": _digits_one_sided,
    "imdb_small": _imdb_small,
    "cifar10n_small": _cifar10n_small,
    "cifar10_small": _cifar10_small,
    "cifar10_small_longtail": _cifar10_small_longtail,
}
_SHARED = ("pretrain", "start")  # made once a seed, by the first that does

_DATA = flags.DEFINE_enum("data", "digits", list(_CONFIGS), "What is trained on.")
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
    for seed in seeds():
        for variant in variants:
            results = run(seed, variant)
            found = by_part(results, own.method_name(variant.method), shots=_SHOTS.value)
            accuracies.setdefault(variant.label, {})[seed] = found
        write_json(workdir() / "accuracies.json", accuracies)
    for line in [*table(accuracies), "", *by_seed(accuracies)]:
        print(line)


def config_of(data):
    """What is trained on some data, by its name."""
    return _CONFIGS[data]()


def by_part(results, method, *, shots):
    """In percent, of the parts of the groups that have test examples, and of such shots."""
    shares = {part: mean["test_accuracy"] for part, mean in results["means"][method].items()}
    if shots:
        means = results.get("class_means", {}).get(method, {})
        shares |= {f"{shot}-shot": means.get(shot) for shot in SHOTS}
    return {part: 100 * share for part, share in shares.items() if share is not None}


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


def seeds():
    """Those of --seeds and --first_seed."""
    return range(_FIRST_SEED.value, _FIRST_SEED.value + _SEEDS.value)


def workdir():
    """That of --workdir."""
    return pathlib.Path(_WORKDIR.value)


def table(accuracies):
    parts = _parts(accuracies)
    yield "| method | " + " | ".join(f"{p}, accuracy | {p}, gain" for p in parts) + " |"
    yield "| --- |" + " --- | --- |" * len(parts)
    for label, of_seed in accuracies.items():
        cells = []
        for part in parts:
            values = np.array([of_seed[seed][part] for seed in of_seed])
            reference = np.array([accuracies["erm"][seed][part] for seed in of_seed])
            cells += [mean_and_error(values), mean_and_error(values - reference)]
        yield f"| {label} | " + " | ".join(cells) + " |"


def by_seed(accuracies):
    parts = _parts(accuracies)
    yield f"{' / '.join(parts)}:"
    yield ""
    yield "| seed | " + " | ".join(accuracies) + " |"
    yield "| --- |" + " --- |" * len(accuracies)
    for seed in accuracies["erm"]:
        numbers = (" / ".join(f"{of[seed][p]:.1f}" for p in parts) for of in accuracies.values())
        yield f"| {seed} | " + " | ".join(numbers) + " |"


def _parts(accuracies):
    everything = [shares for of_seed in accuracies.values() for shares in of_seed.values()]
    same = "all" if "noisy" in everything[0] else "clean"  # of right labels all are clean
    return [p for p in everything[0] if p != same and all(p in shares for shares in everything)]


def mean_and_error(values):
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():.2f} ± {error:.2f}"


if __name__ == "__main__":
    app.run(main)
