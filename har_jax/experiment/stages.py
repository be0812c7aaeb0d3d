"""What each stage does, beside pre-training."""

import dataclasses
import functools

from har_jax.config.defaults import flatten
from har_jax.estimation.out_of_sample import by_fold, estimate, warn_of_confusion
from har_jax.experiment.artefacts import Artefacts, write
from har_jax.experiment.build import make_describe
from har_jax.experiment.pretraining import folders_of
from har_jax.experiment.selection import cross_validation_of, select
from har_jax.report.given import given, given_by_selection, read_given
from har_jax.report.page import write_page
from har_jax.report.results import Inputs, notes, summarize
from har_jax.report.selection import as_csv
from har_jax.report.table import format_table
from har_jax.system import interruption
from har_jax.system.files import read_arrays, write_json, write_text
from har_jax.system.processes import is_first
from har_jax.train.evaluate import ByExample
from har_jax.train.metrics import read_metrics
from har_jax.train.predictions import to_table, write_table


def run_estimate(artefacts: Artefacts) -> None:
    """Turns what was predicted out of sample into the statistics of every group."""
    data, said = artefacts.data, artefacts.out_of_sample()
    assert said is not None  # this stage is of methods that need it
    train = data.train
    warn_of_confusion(said, train.labels, data.class_names, foreign=artefacts.foreign)
    names, smoothing = data.group_names, artefacts.config.estimate.smoothing
    estimates = estimate(said, train.labels, train.group_ids(), names, smoothing)
    folder = artefacts.estimate.path
    write(folder / "statistics.npz", **dataclasses.asdict(estimates.pooled))
    write(folder / "folds.npz", **by_fold(estimates))


def run_start(artefacts: Artefacts) -> None:
    """Trains plainly what others start from."""
    artefacts.started()
    artefacts.trainer.describe_data(artefacts.start.path)


def run_select(artefacts: Artefacts, name: str) -> None:
    """Selects the examples that a method is trained on."""
    chosen = cross_validation_of(artefacts.methods[name], artefacts.config)
    select(artefacts.trainer, artefacts.select[name].path, name, chosen)


def run_train(artefacts: Artefacts, name: str) -> None:
    """Trains a method on the full set, and evaluates it."""
    data, folder = artefacts.data, artefacts.train[name].path
    trained = artefacts.trained(name)
    train, test, *others = artefacts.trainer.evaluate(
        name, trained.method, trained.state, data.train, data.test, *data.others.values()
    )
    if is_first():
        selection = trained.selection
        labels = trained.labels if selection is None else data.train.labels  # told of by itself
        told = given(labels, trained.noise_rate, data, meta=trained.meta)
        if selection is not None:
            told |= given_by_selection(selection, data)
        write_json(folder / "given.json", told)
    results = {"test": test, **dict(zip(data.others, others, strict=True))}
    artefacts.trainer.describe_data(folder)
    write(
        folder / "evaluation.npz",
        strength=trained.strength,
        trained_label=trained.labels,
        train_loss=train.loss,
        train_prediction=train.prediction,
        test_loss=test.loss,
        test_prediction=test.prediction,
        **{f"{name}_top5": result.top5 for name, result in results.items()},
        **{f"{name}_prediction": results[name].prediction for name in data.others},
    )


def run_report(artefacts: Artefacts) -> None:
    """Compares what was trained."""
    if not is_first():
        return
    folders = {name: folder.path for name, folder in artefacts.train.items()}
    statistics = folds = None
    if artefacts.estimates:
        if not artefacts.foreign:
            pretrained = folders_of(artefacts.config, artefacts.pretrain.path)
            folders = {**{path.name: path for path in pretrained}, **folders}
        statistics = artefacts.statistics()
        folds = read_arrays(artefacts.estimate.path / "folds.npz")
    inputs = Inputs(
        config={**flatten(artefacts.config), "devices": artefacts.trainer.mesh.size},
        data=artefacts.data,
        held_out=artefacts.out_of_sample(),
        statistics=statistics,
        folds=folds,
        evaluations={
            name: read_arrays(folder.path / "evaluation.npz")
            for name, folder in artefacts.train.items()
        },
        given={name: read_given(folder.path) for name, folder in artefacts.train.items()},
        metrics={name: read_metrics(path / "metrics.jsonl") for name, path in folders.items()},
    )
    interruption.check()
    results = summarize(inputs)
    interruption.check()
    folder = artefacts.report.path
    write_json(folder / "results.json", results)
    write_text(folder / "groups.csv", as_csv(results))
    write_page(folder / "index.html", inputs, results)
    interruption.check()
    print(format_table(results))
    for line in notes(results):
        print(line)
    print(f"report: {folder / 'index.html'}")


def run_predict(artefacts: Artefacts) -> None:
    """Writes what each trained network says of every example."""
    config, data, trainer = artefacts.config, artefacts.data, artefacts.trainer
    said = artefacts.out_of_sample()

    @functools.cache  # one program for all methods whose networks are alike
    def described_by(branches: int) -> ByExample:
        describe = make_describe(config, data.num_classes, data.vocabulary_size, branches)
        return ByExample(describe, min(trainer.at_once, 256), trainer.mesh)

    for name, folder in artefacts.train.items():
        folder.need_checkpoint("from which --stage=predict restores a network")
        trained = artefacts.trained(name)
        describe_all = described_by(artefacts.entries[name].branches)
        tables = [
            to_table(
                split,
                examples,
                describe_all(trained.state.variables, examples),
                factor,
                data.class_names,
                data.group_names,
                seen_before,
            )
            for split, examples, factor, seen_before in (
                ("train", data.train, trained.strength, said),
                ("test", data.test, None, None),
            )
        ]
        interruption.check()
        path = artefacts.predict.path / f"{name}.{config.predictions}"
        if is_first():
            write_table(path, tables, config.predictions)
        print(f"predictions: {path}")
