"""How often the labels that look most wrong are wrong, by several rankings of what is known.

python -m benchmarks.suspicion --seeds=10
python -m benchmarks.suspicion --data=cifar10n_small --data_dir=DIR --labels=FILE --seeds=1
python -m benchmarks.suspicion --data=cifar10n_small --data_dir=DIR --labels=FILE --from=WORKDIR

Pre-trains with two folds at every seed, so that every training example has out-of-sample
probabilities, and ranks labels by them: by the margin, which the report's gallery goes by, by the
held-out loss, and by cleanlab's label quality scores. Prints the share of labels that are wrong
among the first 10, 50 and 100 of each ranking, means and standard errors over seeds. --from takes
a workdir of the same config that has been pre-trained, and makes nothing.
"""

import argparse
import pathlib

import numpy as np
from cleanlab.rank import get_label_quality_scores

from benchmarks import gains
from har_jax.config import validate
from har_jax.estimation.calibration import calibrated
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.estimation.suspicion import precision_at, suspicion
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.artefacts import Artefacts
from har_jax.system.files import read_array, read_arrays

COUNTS = (10, 50, 100)
_QUALITIES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="digits", help="of benchmarks.gains")
    parser.add_argument("--data_dir", help="of TFDS")
    parser.add_argument("--labels", help="the file of config.data.labels")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--validation", action="store_true", help="as of benchmarks.gains")
    parser.add_argument("--from", dest="made", type=pathlib.Path, help="a workdir")
    parser.add_argument("--workdir", type=pathlib.Path, default=pathlib.Path("runs/suspicion"))
    options = parser.parse_args()
    found: dict[str, list[dict[int, float]]] = {}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        config = config_of(options, seed)
        workdir = options.made or options.workdir / options.data / f"seed-{seed}"
        if options.made is None:
            Experiment(config, workdir).run("pretrain")
        data = Artefacts(config, workdir).data
        said = OutOfSample(**read_arrays(workdir / "pretrain" / "held_out.npz"))
        probabilities = read_array(workdir / "pretrain" / "probabilities.npy")
        share = 100 * np.mean(data.flipped)
        print(f"seed {seed}: {len(data.train)} examples, {share:.1f}% mislabelled", flush=True)
        for name, scores in rankings(said, probabilities, data.train.labels).items():
            ranked = np.argsort(-scores, kind="stable")
            found.setdefault(name, []).append(precision_at(COUNTS, ranked, data.flipped))
    print("| ranking | " + " | ".join(f"first {count}" for count in COUNTS) + " |")
    print("| --- |" + " --- |" * len(COUNTS))
    for name, of_seeds in found.items():
        columns = (np.array([100 * of[count] for of in of_seeds]) for count in COUNTS)
        print(f"| {name} | " + " | ".join(map(gains.mean_and_error, columns)) + " |")


def config_of(options, seed):
    """That of the data, pre-trained on two folds."""
    config = gains.config_of(options.data)
    config.seed = seed
    config.data.data_dir = options.data_dir
    config.pretrain.folds = 2
    if options.labels is not None:
        config.data.labels = options.labels
    if options.validation:
        config.data.evaluate_on = "validation"
        config.data.validation_fraction = 0.25
    validate(config)
    return config


def rankings(said, probabilities, labels):
    """Of every example, how suspicious its label is, by the name of each way to say so."""
    margin, loss = np.zeros(len(labels)), np.zeros(len(labels))
    margin[said.index], loss[said.index] = suspicion(said), said.loss
    _, fold = said.of_all(len(labels))
    scaled, _ = calibrated(probabilities, labels.astype(np.int64), fold)
    rows = np.arange(len(labels))
    found = {
        "margin": margin,
        "held-out loss": loss,
        "margin, calibrated": scaled.max(axis=1) - scaled[rows, labels],
    }
    whole = probabilities.astype(np.float64)
    whole /= whole.sum(axis=1, keepdims=True)
    for quality in _QUALITIES:
        scores = get_label_quality_scores(labels, whole, method=quality)
        found[f"cleanlab, {quality}"] = -scores
    for quality in _QUALITIES[:2]:
        scores = get_label_quality_scores(labels, whole, method=quality, adjust_pred_probs=True)
        found[f"cleanlab, {quality}, adjusted"] = -scores
    return found


if __name__ == "__main__":
    main()
