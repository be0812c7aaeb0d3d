"""What each stage does, beside pre-training."""

import dataclasses

from har_jax.config.consistency import estimated_from
from har_jax.config.defaults import flatten
from har_jax.estimation.estimate import errors_by_group
from har_jax.estimation.out_of_sample import warn_of_confusion
from har_jax.experiment.artefacts import Artefacts, save, write
from har_jax.experiment.build import make_filter
from har_jax.experiment.estimating import estimate_from, facts_of
from har_jax.experiment.pretraining import folders_of
from har_jax.experiment.selection import cross_validation_of, select
from har_jax.experiment.workdir import StageError
from har_jax.report.given import given, given_by_selection, read_given
from har_jax.report.relabel import NAME as RELABEL
from har_jax.report.relabel import suggestions
from har_jax.report.results import Inputs, notes, summarize
from har_jax.report.selection import as_csv, methods_as_csv
from har_jax.report.table import format_table
from har_jax.strength import GroupStatistics
from har_jax.system import interruption
from har_jax.system.files import read_arrays, write_arrays, write_json, write_text
from har_jax.system.processes import is_first
from har_jax.train.evaluate import ByExample
from har_jax.train.metrics import read_metrics
from har_jax.train.predictions import describe, to_table, write_table


def run_estimate(artefacts: Artefacts) -> None:
    """Turns what was predicted out of sample into the statistics of every group."""
    data, said = artefacts.data, artefacts.out_of_sample()
    assert said is not None  # this stage is of methods that need it
    labels, groups = data.train.labels, data.train.group_ids()
    warn_of_confusion(said, labels, data.class_names, foreign=artefacts.foreign)
    errors, folds = errors_by_group(said, labels, groups, len(data.group_names))
    chosen = artefacts.config.estimate
    needed = estimated_from(chosen.groups, chosen.noise)
    facts = facts_of(
        artefacts.trainer, said, artefacts.probabilities, artefacts.pretrain.path, needed
    )
    folder = artefacts.estimate.path
    write(folder / "errors.npz", **dataclasses.asdict(errors))
    write(folder / "folds.npz", **folds)
    try:
        estimated = estimate_from(facts, chosen)
    except ValueError as error:  # of what is there nothing can be estimated
        raise StageError(
            f"config.estimate.groups={chosen.groups!r}, config.estimate.noise={chosen.noise!r}: "
            f"{error}"
        ) from error
    save(folder, estimated)


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
    from har_jax.report.page import write_page  # brings Matplotlib, for which no error should wait

    folders = {name: folder.path for name, folder in artefacts.train.items()}
    estimated = errors = folds = None
    if artefacts.estimates:
        if not artefacts.foreign:
            pretrained = folders_of(artefacts.config, artefacts.pretrain.path)
            folders = {**{path.name: path for path in pretrained}, **folders}
        estimated = artefacts.estimated()
        errors = GroupStatistics(**read_arrays(artefacts.estimate.path / "errors.npz"))
        folds = read_arrays(artefacts.estimate.path / "folds.npz")
    inputs = Inputs(
        config={**flatten(artefacts.config), "devices": artefacts.trainer.mesh.size},
        data=artefacts.data,
        held_out=artefacts.out_of_sample(),
        estimated=estimated,
        errors=errors,
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
    if inputs.held_out is not None:
        write_text(folder / RELABEL, suggestions(inputs.held_out, artefacts.data))
    write_text(folder / "methods.csv", methods_as_csv(results))
    test = artefacts.data.test
    write_arrays(folder / "test.npz", label=test.labels, group=test.group_ids())
    write_page(folder / "index.html", inputs, results)
    interruption.check()
    print(f"{results['answer']}\n")
    print(format_table(results))
    for line in notes(results):
        print(line)
    if inputs.held_out is not None:
        print(f"suggested corrections of labels, to edit: {folder / RELABEL}")
    print(f"report: {folder / 'index.html'}")


def run_predict(artefacts: Artefacts) -> None:
    """Writes what each trained network says of every example."""
    config, data, trainer = artefacts.config, artefacts.data, artefacts.trainer
    said = artefacts.out_of_sample()
    layers, reduction = make_filter(config.regularizer), config.regularizer.reduction
    for name, folder in artefacts.train.items():
        folder.need_checkpoint("from which --stage=predict restores a network")
        trained = artefacts.trained(name)
        said_of = describe(trained.method.predict, layers, reduction, title=name)
        describe_all = ByExample(said_of, min(trainer.at_once, 256), trainer.mesh)
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
