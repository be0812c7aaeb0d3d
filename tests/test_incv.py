"""INCV: the selection as its authors' code makes it, its stage, and the training that follows."""

import pathlib
import types

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from har_jax import config as har_config
from har_jax import losses, methods
from har_jax.data import Examples, TrainingData
from har_jax.estimation import cross_validation
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.artefacts import Artefacts
from har_jax.experiment.selection import known_by, read_selection, select
from har_jax.experiment.workdir import StageError
from har_jax.methods import CrossValidation
from har_jax.methods.incv import number_kept
from har_jax.report.given import given_by_selection, lines
from har_jax.train.evaluate import Evaluation
from har_jax.train.feed import Beside
from har_jax.train.loop import fit
from har_jax.train.mesh import AXIS, ROWS, WHOLE, data_mesh, map_over

GOLDEN = pathlib.Path(__file__).parent / "data" / "baselines"
OTHERS = GOLDEN.parents[3] / "shared" / "golden" / "baselines"
KINDS = {"sym": "symmetric", "asym": "asymmetric"}
LOST = "ignore:incv takes nearly all labels of"  # which tiny networks have not learned


@pytest.fixture(params=[GOLDEN, OTHERS], ids=["golden", "shared"])
def golden(request):
    if not request.param.exists():
        pytest.skip(f"{request.param} is not there")
    with np.load(request.param / "incv.npz", allow_pickle=False) as file:
        return dict(file.items())


def said_of(halves, softmax, labels):
    """What two networks say, each of the half that it was not trained on."""
    index = np.concatenate(halves)
    fold = np.repeat([0, 1], [len(half) for half in halves])
    rows = np.concatenate([softmax[1][halves[0]], softmax[0][halves[1]]])
    loss = -np.log(rows[np.arange(len(index)), labels[index]])
    return OutOfSample(index, fold, rows.argmax(axis=1), loss)


@pytest.mark.parametrize("pattern", KINDS)
def test_selects_what_the_authors_code_selects(golden, pattern):
    of = lambda key: golden[f"{pattern}/{key}"]
    kind, labels, softmax = KINDS[pattern], of("labels_noisy"), of("softmax")
    count = softmax.shape[-1]
    selection = cross_validation.nothing_selected(len(labels))
    for number, outputs in enumerate(softmax):
        halves = [of(f"iter{number}/{half}_half") for half in ("first", "second")]
        said = said_of(halves, outputs, labels)
        selection = cross_validation.next_round(selection, number, said, labels, count, kind)
        new = np.flatnonzero(selection.round == number)
        assert new.tolist() == of(f"iter{number}/selected_new").tolist()
        assert (
            selection.selected.tolist()
            == np.flatnonzero(of(f"iter{number}/selected_mask")).tolist()
        )
        assert (
            selection.candidates.tolist()
            == np.flatnonzero(of(f"iter{number}/candidate_mask")).tolist()
        )
        ratio = cross_validation.discard_ratio(selection.noise_rate)
        worst = []
        for half in (0, 1):
            rows = said.fold == half
            index = said.index[rows]
            chosen = cross_validation.choose(
                said.prediction[rows], said.loss[rows], labels[index], ratio
            )
            worst += index[chosen.worst].tolist()
        assert sorted(worst) == sorted(of(f"iter{number}/highest_loss").tolist())
    rate = selection.noise_rate
    assert rate == pytest.approx(of("noise_rate_estimate"), abs=1e-10)
    assert ratio == pytest.approx(of("discard_ratio"), abs=1e-10)
    selected = cross_validation.noise_rate_of_selected(rate, count, kind)
    assert selected == pytest.approx(of("noise_rate_selected"), abs=1e-10)
    sizes = len(selection.candidates), len(selection.selected), 128
    assert cross_validation.candidate_batch_size(*sizes) == of("candidate_batch_size")
    epochs = len(of("num_keep"))
    assert cross_validation.warm_up(rate, kind) * epochs == pytest.approx(of("warm_up_epochs"))
    kept = jax.vmap(lambda epoch: number_kept(epoch, 128, selected, 10))(jnp.arange(float(epochs)))
    assert kept.tolist() == of("num_keep").tolist()


def test_the_noise_rate_is_the_first_at_which_less_would_be_agreed_with():
    seed = 0
    for agreement in np.random.default_rng(seed).uniform(0.12, 1, 50).tolist():
        rate = 0.001
        while (1 - rate) ** 2 + rate**2 / 9 > agreement:
            rate += 0.001
        found = cross_validation.noise_rate_by_agreement(agreement, 10)
        assert found == pytest.approx(rate, abs=1e-9), f"seed {seed}"
    assert cross_validation.noise_rate_by_agreement(1.0, 10) == 0.001
    # A perfect predictor of pair flips of 40% in 4 of 10 classes.
    assert cross_validation.noise_rate_by_agreement(0.808, 10) == pytest.approx(0.102)
    assert cross_validation.noise_rate_by_agreement(0.52, 10) == pytest.approx(0.286)


@pytest.mark.parametrize("agreement", [0.0, 0.0999])
def test_a_model_that_agrees_no_more_than_chance_is_refused(agreement):
    with pytest.raises(
        cross_validation.AgreementError, match=r"no more than chance, 10\.0%: it has not learned"
    ):
        cross_validation.noise_rate_by_agreement(agreement, 10)


def test_none_is_removed_where_the_ratio_asks_for_less_than_one():
    labels, loss = np.zeros(5, int), np.arange(5.0)
    prediction = np.array([0, 0, 0, 1, -1])  # the last could not be read
    loss[-1] = np.nan
    count = lambda ratio: np.sum(cross_validation.choose(prediction, loss, labels, ratio).worst)
    assert [count(ratio) for ratio in (0.3, 0.34, 0.7, 2.0)] == [0, 1, 2, 4]
    chosen = cross_validation.choose(prediction, loss, labels, 0.7)
    assert chosen.worst.tolist() == [False, False, True, True, False]
    assert chosen.agrees.tolist() == [True, True, True, False, False]  # moving wins over dropping
    said = OutOfSample(np.arange(5), np.ones(5, int), prediction, loss)
    after = {
        kind: cross_validation.next_round(
            cross_validation.nothing_selected(5), 0, said, labels, 2, kind
        )
        for kind in KINDS.values()
    }
    assert after["symmetric"].round.tolist() == [0, 0, 0, -1, -1]
    assert not np.any(after["asymmetric"].removed)
    assert np.all(after["asymmetric"].candidates == [3, 4])


def test_what_comes_with_a_batch():
    size = cross_validation.candidate_batch_size
    assert [size(30, 100, 128), size(90, 100, 128), size(0, 100, 128)] == [38, 64, 0]
    rates = {"symmetric": (0.2, 0.7), "asymmetric": (0.2, 0.2)}
    warm_ups = [cross_validation.warm_up(rate, kind) for kind, two in rates.items() for rate in two]
    assert warm_ups == [0.2, 0.4, 0.4, 0.4]
    oracle = Oracle(np.arange(10), np.arange(10))
    selection = cross_validation.nothing_selected(10)._replace(noise_rate=0.2)
    given = lambda *beside: known_by(oracle, "incv", selection, dict.fromkeys(beside))
    assert given("candidate") == {"selected_noise_rate": pytest.approx(0.04 / 0.68), "warm_up": 0.4}
    assert given()["warm_up"] == 1.0
    oracle.config.method.incv.warm_up = 0.1
    assert "warm_up" not in given("candidate")


class Network(nn.Module):
    """With statistics of the batch, so that rows that are not to be seen would show."""

    normalized: bool = True

    @nn.compact
    def __call__(self, inputs, *, train):
        hidden = nn.Dense(8)(inputs)
        if self.normalized:
            hidden = nn.BatchNorm(use_running_average=not train)(hidden)
        return nn.Dense(3)(nn.tanh(hidden))


def batch(seed=0, size=16, candidates=8):
    rng = np.random.default_rng(seed)
    draw = lambda count: {
        "inputs": rng.normal(size=(count, 4)).astype(np.float32),
        "labels": rng.integers(0, 3, count).astype(np.int32),
    }
    own, others = draw(size), draw(candidates)
    return {**own, **{f"candidate_{name}": rows for name, rows in others.items()}}


def own_rows(data):
    return {name: rows for name, rows in data.items() if not name.startswith("candidate")}


def make(model=None, *, noise_rate=0.3, warm_up=0.5, optimizer=None, **options):
    return methods.incv(
        model or Network(),
        optimizer or optax.adam(0.05),
        steps_per_epoch=1.0,
        total_steps=8,
        selected_noise_rate=noise_rate,
        warm_up=warm_up,
        **{"gradual_epochs": 2, **options},
    )


def steps(method, data, count, mesh=None, step=None):
    step = step or method.step
    step = step if mesh is None else map_over(mesh, step, (WHOLE, ROWS, WHOLE), WHOLE)
    step, state = jax.jit(step), jax.jit(method.init)(jax.random.key(0), data)
    for key in range(count):
        state, metrics = step(state, data, jax.random.key(key))
    return state, metrics


def test_before_the_warm_up_candidates_change_nothing():
    method = make(optimizer=optax.sgd(0.05))  # Adam makes steps of what is rounded away from 0
    others = {name: rows[::-1] + 1 for name, rows in batch().items() if name.startswith("cand")}
    chex.assert_trees_all_equal(steps(method, batch(), 4), steps(method, batch() | others, 4))
    alone, _ = method.phases.steps
    first = steps(method, batch(), 4, step=alone)
    chex.assert_trees_all_equal(first, steps(method, own_rows(batch()), 4, step=alone))
    chex.assert_trees_all_close(first, steps(method, batch(), 4), rtol=1e-5, atol=1e-6)
    changed, _ = steps(method, batch() | others, 5)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_close(steps(method, batch(), 5)[0].params, changed.params)


def test_each_phase_is_due_at_its_steps():
    method = make()
    assert [method.phases.due(step) for step in (0, 3, 4, 7)] == [0, 0, 1, 1]
    assert [make(warm_up=1.0).phases.due(step) for step in (0, 7)] == [0, 0]
    assert make(warm_up=0.0).phases.due(0) == 1
    # Without candidates both phases are the same.
    alone, together = method.phases.steps
    data = own_rows(batch())
    chex.assert_trees_all_equal(
        steps(method, data, 2, step=alone), steps(method, data, 2, step=together)
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_with_candidates_is_that_of_all_rows_by_hand(weighted):
    weights = (lambda labels, step: 1.0 + labels) if weighted else None
    method = make(warm_up=0.0, optimizer=optax.sgd(1.0), gradual_epochs=1, loss_weights=weights)
    data = batch()
    state = method.init(jax.random.key(0), data).replace(step=jnp.int32(3))
    after, metrics = jax.jit(method.step)(state, data, jax.random.key(1))
    inputs = np.concatenate([data["inputs"], data["candidate_inputs"]])
    labels = np.concatenate([data["labels"], data["candidate_labels"]])
    count = round(16 * (1 - 0.3))

    def loss_of(name, params):
        variables = {
            "params": params,
            **{key: of[name] for key, of in state.collections.items()},
        }
        logits, _ = Network().apply(variables, inputs, train=True, mutable=["batch_stats"])
        return losses.cross_entropy(logits, labels)

    for name, other in (("first", "second"), ("second", "first")):
        chosen = np.argsort(loss_of(other, state.params[other]))[:count]
        of_rows = 1.0 + labels[chosen] if weighted else np.ones(count)

        def mean(params, name=name, chosen=chosen, of_rows=of_rows):
            return jnp.sum(loss_of(name, params)[chosen] * of_rows) / np.sum(of_rows)

        gradient = jax.grad(mean)(state.params[name])
        found = jax.tree.map(lambda new, old: old - new, after.params, state.params)[name]
        chex.assert_trees_all_close(found, gradient, rtol=1e-4, atol=1e-6)
    assert metrics["kept"].total == count
    assert metrics["kept"].weight == len(labels)
    own = loss_of("first", state.params["first"])[:16]  # of the batch's own rows
    assert float(metrics["loss"].mean()) == pytest.approx(float(jnp.mean(own)), rel=1e-5)


def test_devices_make_the_same_steps():
    mesh = data_mesh(jax.devices()[:2])
    model = Network(normalized=False)
    one = steps(make(model), batch(), 6)
    several = steps(make(model, axis=AXIS), batch(), 6, mesh)
    chex.assert_trees_all_close(several, one, rtol=2e-4, atol=1e-5)


def test_options_out_of_bounds_are_refused():
    with pytest.raises(ValueError, match="warm_up is needed"):
        make(warm_up=None)
    with pytest.raises(ValueError, match=r"selected_noise_rate=1.0 must be in \[0, 1\), warm_up"):
        make(noise_rate=1.0)
    with pytest.raises(ValueError, match="incv: a batch's loss cannot be cut into microbatches=2"):
        make(microbatches=2)


@pytest.mark.slow
def test_a_run_that_is_cut_in_both_phases_comes_to_the_same_bits(tmp_path, cut_after_saving):
    rows = batch(size=20, candidates=12)
    data = own_rows(rows)
    others = {name: rows[f"candidate_{name}"] for name in data}

    def train(folder):
        options = dict(steps=8, batch_size=8, seed=0, log_every=3, checkpoint_every=1)
        beside = {"candidate": Beside(others, 4)}
        return fit(make(), data, tmp_path / folder, title="incv", beside=beside, **options)

    whole = train("whole")
    for step in (3, 4, 6):
        cut_after_saving(step, train, "cut")
    chex.assert_trees_all_equal(train("cut"), whole)
    records = [(tmp_path / folder / "metrics.jsonl").read_text() for folder in ("whole", "cut")]
    assert records[0] == records[1]


@pytest.mark.slow
def test_a_dispatch_of_many_steps_goes_through_both_phases(tmp_path):
    rows = batch(size=20, candidates=12)
    data = own_rows(rows)
    beside = {"candidate": Beside({name: rows[f"candidate_{name}"] for name in data}, 4)}
    options = dict(steps=8, batch_size=8, seed=0, log_every=8, checkpoint_every=8, title="incv")
    one, two, many = (
        fit(
            make(), data, tmp_path / str(most), beside=beside, steps_per_dispatch=most, **options
        ).variables
        for most in (1, 2, 8)
    )
    chex.assert_trees_all_equal(two, many)
    chex.assert_trees_all_close(one, many, rtol=1e-3, atol=1e-4)


class Oracle:
    """Stands for what trains: its models predict the true labels, but for some examples."""

    def __init__(self, labels, prediction, content=None):
        self.config = har_config.base()
        inputs = np.arange(len(labels), dtype=np.float32)[:, np.newaxis]
        train = Examples(inputs, labels.astype(np.int32), content=content)
        names = tuple("abcdefghij"[: labels.max() + 1])
        self.data = types.SimpleNamespace(
            train=train, num_classes=len(names), class_names=names, group_names=names
        )
        self.prediction, self.fitted = prediction, []

    def make_method(self, name, labels, epochs, *, schedule_epochs, reweighting):
        assert (name, schedule_epochs, reweighting) == ("erm", self.config.train.epochs, False)

    def fit(self, method, arrays, folder, epochs, *, title):
        assert epochs == 0.25 * self.config.train.epochs
        self.fitted.append(arrays["inputs"][:, 0].astype(int))

    def evaluate(self, title, method, state, examples, *, probabilities):
        assert not probabilities
        index = examples.inputs[:, 0].astype(int)
        hits = self.prediction[index] == examples.labels
        loss = np.where(hits, 0.1, 1.0 + index).astype(np.float32)
        return [Evaluation(loss, self.prediction[index], hits.astype(int), 0.5 + 0 * loss)]

    def describe_data(self, path):
        pass


def test_rounds_train_on_what_is_selected_and_on_half_of_the_rest(tmp_path):
    labels = np.arange(40) % 2
    prediction = np.where(np.arange(40) < 10, 1 - labels, labels)
    oracle = Oracle(labels, prediction)
    for number in (0, 1):
        (tmp_path / f"round-{number}").mkdir()
    select(oracle, tmp_path, "incv", CrossValidation(rounds=2))
    selection = read_selection(tmp_path)
    assert selection.candidates.tolist() == list(range(10))
    assert set(selection.round.tolist()) == {0, -1}
    first, second, *others = map(set, oracle.fitted)
    assert len(first) == len(second) == 20
    assert not first & second
    assert [len(each) for each in others] == [35, 35]
    assert all(set(range(10, 40)) <= each for each in others)
    # What a round left is read, and nothing is trained again.
    again = Oracle(labels, prediction)
    select(again, tmp_path, "incv", CrossValidation(rounds=2))
    assert not again.fitted


@pytest.mark.filterwarnings(LOST)
def test_rounds_end_where_nothing_is_left_for_two_halves(tmp_path):
    labels = np.arange(40) % 2
    for left, folder in ((1, "one"), (2, "equal"), (0, "none")):
        prediction = np.where(np.arange(40) < left, 1 - labels, labels)
        content = np.where(np.arange(40) < left, 0, np.arange(40))  # equal ones stay together
        oracle = Oracle(labels, prediction, content)
        (tmp_path / folder / "round-0").mkdir(parents=True)
        select(oracle, tmp_path / folder, "incv", CrossValidation(rounds=4))
        assert len(oracle.fitted) == 2
        assert len(read_selection(tmp_path / folder).candidates) == left


def test_a_model_that_has_learned_nothing_is_told_with_the_remedy(tmp_path):
    labels = np.arange(40) % 4
    (tmp_path / "round-0").mkdir()
    with pytest.raises(StageError, match=r"no more than chance, 25\.0%.*config\.method\.incv\.sh"):
        select(Oracle(labels, (labels + 1) % 4), tmp_path, "incv", CrossValidation())


def test_what_was_selected_is_told():
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 1], np.int32)
    true = np.array([0, 0, 1, 1, 1, 0, 0, 1], np.int32)
    train = Examples(np.zeros((8, 1)), labels)
    data = TrainingData(train, true, train, ("a", "b"), ("a", "b"), (), (1,))
    rounds = np.array([0, 0, 1, 0, -1, 1, -1, -1], np.int32)
    removed = np.array([0, 0, 0, 0, 0, 0, 1, 1], bool)
    selection = cross_validation.Selection(rounds, removed, 0.25)
    told = given_by_selection(selection, data)
    assert told["selection"]["rounds"] == 2
    assert told["selection"]["removed"] == {
        "count": 2,
        "mislabelled": 0.5,
        "rare": 2,
        "rare_mislabelled": 0.5,
        "of_clean_rare": pytest.approx(1 / 3),
    }
    assert list(lines({"incv": told})) == [
        "incv: 5 training examples selected, 1 left as candidates, 2 removed, at a noise rate of "
        "25.0%, estimated",
        "incv: mislabelled are 40% of the selected, 0% of the candidates, 50% of the removed",
        "incv: of the selected examples of rare classes 50% are mislabelled",
        "incv: of the rightly labelled examples of rare classes 33% are selected and 33% removed",
    ]
    clean = TrainingData(train, labels, train, ("a", "b"), ("a", "b"), (), ())
    assert len(list(lines({"incv": given_by_selection(selection, clean)}))) == 1


def tiny(**changes):
    config = har_config.base()
    config.methods = ("incv",)
    config.data.train_size = 300
    config.data.noise.kind, config.data.noise.rate = "symmetric", 0.2
    config.method.incv.noise = "symmetric"
    config.method.incv.rounds = 2
    config.devices, config.batch_size, config.checkpoint_every = 1, 32, 10
    config.model.widths = (8,)
    config.train.epochs = 16.0
    config.update_from_flattened_dict(changes)
    har_config.validate(config)
    return config


def test_a_selection_depends_on_what_selects():
    keys = Artefacts(tiny(), pathlib.Path("nowhere")).select["incv"].fingerprint
    assert {"method.incv.rounds", "method.incv.share", "train.epochs", "optimizer.name"} <= set(
        keys
    )
    assert not {"method.incv.warm_up", "pretrain.epochs", "regularizer.strength"} & set(keys)
    assert not Artefacts(har_config.base(), pathlib.Path("nowhere")).select


@pytest.mark.slow
@pytest.mark.filterwarnings(LOST)
def test_a_selection_that_is_cut_again_and_again_comes_to_the_same_bits(
    tmp_path, cut_after_saving, capsys
):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    Experiment(tiny(), whole).run()
    told = capsys.readouterr().out
    for _ in range(3):  # both models of the first round, and one of the second
        cut_after_saving(10, Experiment(tiny(), cut).run, "select")
    assert (cut / "select" / "incv" / "round-0" / "held_out.npz").exists()
    with pytest.raises(
        StageError, match=r"needs .*select/incv, which is not complete: run --stage=s"
    ):
        Experiment(tiny(), cut).run("train")
    Experiment(tiny(), cut).run("select")
    cut_after_saving(20, Experiment(tiny(), cut).run)
    Experiment(tiny(), cut).run()
    ours, theirs = (read_selection(each / "select" / "incv") for each in (whole, cut))
    chex.assert_trees_all_equal(ours, theirs)
    states = [Artefacts(tiny(), each).trained("incv").state for each in (whole, cut)]
    chex.assert_trees_all_equal(*states)
    assert f"incv: {len(ours.selected)} training examples selected, " in told
    assert len(ours.candidates)
    with np.load(whole / "train" / "incv" / "evaluation.npz") as file:
        assert np.all((file["trained_label"] < 0) == ours.removed)
    Experiment(tiny(), whole).run("predict")
    assert (whole / "predict" / "incv.csv").exists()
