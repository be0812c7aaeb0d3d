"""How often the labels that look most wrong are wrong, by several rankings of what is known.

python -m benchmarks.suspicion --seeds=10
python -m benchmarks.suspicion --data=cifar10n_small --data_dir=DIR --labels=FILE --seeds=1
python -m benchmarks.suspicion --folds=3 --seeds=10 --from='runs/gains/seed-{seed}/har'

Pre-trains with folds at every seed, so that every training example has out-of-sample
probabilities, and ranks labels by them: by the held-out loss, which the report's gallery goes by,
by the margin of another prediction over the label, and by cleanlab's label quality scores. Prints
the share of labels that are wrong among the first 10, 50 and 100 of each ranking, means and
standard errors over seeds. --from names workdirs of the same data, seeds and folds that have been
pre-trained, as benchmarks.gains leaves them, and trains nothing. --linear takes logistic regression
on digits, half of whose classes are rare, with wrong labels everywhere, among frequent classes or
among rare ones: in seconds, whether a ranking takes rare classes for noisy ones.
"""

import argparse
import pathlib

import numpy as np
from cleanlab.rank import get_label_quality_scores

from benchmarks import gains
from har_jax.config import validate
from har_jax.estimation.calibration import calibrated
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.estimation.suspicion import contradicted, precision_at
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
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--validation", action="store_true", help="as of benchmarks.gains")
    parser.add_argument("--linear", action="store_true", help="no network")
    parser.add_argument("--from", dest="made", help="workdirs, by {seed}")
    parser.add_argument("--workdir", type=pathlib.Path, default=pathlib.Path("runs/suspicion"))
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.linear:
        for kind in ("everywhere", "frequent", "rare"):
            print(f"\nwrong labels: {kind}\n")
            report([linear(kind, seed) for seed in seeds])
        return
    report([network(options, seed) for seed in seeds])


def report(runs):
    """Prints the table of some runs, each as :func:`linear` returns it."""
    found = {}
    for probabilities, labels, fold, wrong in runs:
        print(f"{len(labels)} examples, {100 * np.mean(wrong):.1f}% mislabelled", flush=True)
        for name, scores in rankings(probabilities, labels, fold).items():
            ranked = np.argsort(-scores, kind="stable")
            found.setdefault(name, []).append(precision_at(COUNTS, ranked, wrong))
    print("\n| ranking | " + " | ".join(f"first {count}" for count in COUNTS) + " |")
    print("| --- |" + " --- |" * len(COUNTS))
    for name, of_seeds in found.items():
        columns = (np.array([100 * of[count] for of in of_seeds]) for count in COUNTS)
        print(f"| {name} | " + " | ".join(map(gains.mean_and_error, columns)) + " |")


def network(options, seed):
    """What :func:`linear` returns, of a network that is pre-trained."""
    config = config_of(options, seed)
    workdir = options.workdir / options.data / f"seed-{seed}"
    if options.made is None:
        Experiment(config, workdir).run("pretrain")
    else:
        workdir = pathlib.Path(options.made.format(seed=seed))
    data = Artefacts(config, workdir).data
    np.testing.assert_array_equal(read_array(workdir / "pretrain/labels.npy"), data.train.labels)
    said = OutOfSample(**read_arrays(workdir / "pretrain/held_out.npz"))
    probabilities = read_array(workdir / "pretrain/probabilities.npy")
    labels = data.train.labels.astype(np.int64)
    return probabilities, labels, said.of_all(len(labels))[1], data.flipped


def config_of(options, seed):
    """That of the data, pre-trained on folds."""
    config = gains.config_of(options.data)
    config.seed = seed
    config.data.data_dir = options.data_dir
    config.pretrain.folds = options.folds
    if options.labels is not None:
        config.data.labels = options.labels
    if options.validation:
        config.data.evaluate_on = "validation"
        config.data.validation_fraction = 0.25
    validate(config)
    return config


def rankings(probabilities, labels, fold):
    """Of every example, how suspicious its label is, by the name of each way to say so.

    Args:
      probabilities: ``[n, K]``, out of sample.
      labels: ``[n]``, as trained on.
      fold: ``[n]``, by whose model each is predicted.
    """
    rows, whole = np.arange(len(labels)), probabilities.astype(np.float64)
    whole /= whole.sum(axis=1, keepdims=True)

    def said(p):
        loss = -np.log(np.maximum(p[rows, labels], 1e-9))
        return OutOfSample(rows, fold, p.argmax(axis=1), loss, p.max(axis=1))

    def margins(p):
        of = said(p)
        highest = np.where(contradicted(of, labels), of.confidence, 0)
        return highest - np.exp(-of.loss)

    margin = margins(whole)
    of_class = np.bincount(labels, margin > 0) / np.maximum(np.bincount(labels), 1)
    found = {
        "held-out loss": said(whole).loss,
        "margin": margin,
        "margin, calibrated": margins(calibrated(whole, labels, fold)[0]),
        "margin, times its class's error": margin * np.where(margin > 0, of_class[labels], 1),
    }
    for quality in _QUALITIES:
        scores = get_label_quality_scores(labels, whole, method=quality)
        found[f"cleanlab, {quality}"] = -scores
    for quality in _QUALITIES[:2]:
        scores = get_label_quality_scores(labels, whole, method=quality, adjust_pred_probs=True)
        found[f"cleanlab, {quality}, adjusted"] = -scores
    return found


def linear(kind, seed):
    """Probabilities, labels, folds and which labels are wrong, of a tenth to a half of the digits.

    Classes 0 to 4 have 150 examples each, the others 30. Wrong are 10% of all labels, or 30% of
    those of 0 and 1, or 40% of those of 8 and 9, within each pair.
    """
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    raw, rng = load_digits(), np.random.default_rng(seed)
    rows = [np.flatnonzero(raw.target == label)[: 30 if label > 4 else 150] for label in range(10)]
    images, clean = (array[np.concatenate(rows)] for array in (raw.data / 16, raw.target))
    labels, draw = clean.copy(), rng.random(len(clean))
    if kind == "everywhere":
        moved = draw < 0.1
        labels[moved] = rng.integers(0, 10, np.sum(moved))
    else:
        pair, rate = ((0, 1), 0.3) if kind == "frequent" else ((8, 9), 0.4)
        moved = (draw < rate) & np.isin(clean, pair)
        labels[moved] = sum(pair) - clean[moved]
    folds = StratifiedKFold(3)
    model = LogisticRegression(max_iter=500)
    probabilities = cross_val_predict(model, images, labels, cv=folds, method="predict_proba")
    fold = np.zeros(len(labels), np.int64)
    for number, (_, held_out) in enumerate(folds.split(images, labels)):
        fold[held_out] = number
    return probabilities, labels, fold, labels != clean


if __name__ == "__main__":
    main()
