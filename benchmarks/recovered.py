"""How well each estimate of the noise recovers the noise that is there, by rank.

python -m benchmarks.recovered --data=digits --all=pretrain.folds=3 --seeds=20

Takes --data, --data_dir, --all, --seeds, --first_seed and --workdir as benchmarks.gains does, and
the pre-trained models that are there. Prints Spearman's correlation of I with the share of wrong
labels, both as means over the classes that are given and over the true ones, which are the regions
of the input: the mean over seeds and its standard error. At every seed each choice of groups and of
noise reads the same pre-trained models; no other method is trained.
"""

import numpy as np
from absl import app, logging

from benchmarks import gains
from har_jax.estimation.groupings import GROUPINGS, READS
from har_jax.estimation.noises import NOISES
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.artefacts import Artefacts
from har_jax.experiment.estimating import estimate_from, facts_of
from har_jax.experiment.runs import take
from har_jax.report.neighbourhoods import recovered

_CHOICES = [
    {"groups": groups, "noise": noise}
    for groups in GROUPINGS
    if groups != "given"
    for noise in NOISES
] + [
    {"groups": groups, "noise": "error", "balanced_prior": True}
    for groups in ("prediction", "mixture")
]


def main(_):
    logging.set_verbosity(logging.WARNING)
    found = {}
    for seed in gains.chosen_seeds():
        folder = gains.workdir() / f"seed-{seed}"
        pretrained = folder / "recovered"
        for other in folder.glob("*"):
            take(("pretrain",), other, pretrained)
        config = gains.config_at(seed, gains.Variant("har", {}))
        Experiment(config, pretrained).run("pretrain")
        artefacts = Artefacts(config, pretrained)
        data = artefacts.data
        facts = facts_of(
            artefacts.trainer,
            artefacts.out_of_sample(),
            artefacts.probabilities,
            artefacts.pretrain.path,
            READS,
        )
        for choice in _CHOICES:
            noise = estimate_from(facts, {**config.estimate, **choice}).noise
            values = [
                recovered(noise, data.flipped, of) for of in (data.train.labels, data.clean_labels)
            ]
            found.setdefault(" ".join(map(str, choice.values())), []).append(values)
    print("| groups, noise, balanced prior | by given label | by true class |")
    print("| --- | --- | --- |")
    for name, values in found.items():
        cells = (
            gains.mean_and_error(np.array(column, float)) for column in zip(*values, strict=True)
        )
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    app.run(main)
