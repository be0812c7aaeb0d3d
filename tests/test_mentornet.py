"""MentorNet weighs, drops and learns as its authors' code does, in float64, on whatever devices."""

import functools
import pathlib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from har_jax import methods
from har_jax.config import ConfigError, published, recipes, validate
from har_jax.experiment.build import num_steps
from har_jax.losses import cross_entropy
from har_jax.methods.mentornet import OWN
from har_jax.methods.shared import curricula
from har_jax.methods.shared.axis import combine, own_copy
from har_jax.methods.shared.mentor import (
    Lesson,
    Mentor,
    MentorState,
    mentor_optimizer,
    mentor_weights,
    mislabel,
    squared_error,
    study,
)
from har_jax.options import options
from har_jax.train.feed import Beside
from har_jax.train.loop import fit
from har_jax.train.mesh import AXIS, ROWS, WHOLE, data_mesh, map_over
from har_jax.train.optimizer import kernels, make_schedule

GOLDEN = pathlib.Path(__file__).parent / "data" / "baselines"
OTHERS = GOLDEN.parents[3] / "shared" / "golden" / "baselines"
close = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-10)


@pytest.fixture(autouse=True)
def strict():
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture(params=[GOLDEN, OTHERS], ids=["golden", "shared"])
def golden(request):
    """The authors' values, which are of float64."""
    if not request.param.exists():
        pytest.skip(f"{request.param} is not there")
    with jax.enable_x64(True), np.load(request.param / "mentornet.npz") as file:
        yield {name: jnp.asarray(value) for name, value in file.items()}


def mentor_of(golden, prefix):
    """A mentor's parameters, or their gradient, of the authors' names and shapes.

    Theirs have embeddings of two labels of which one is used, and LSTMs with gates and rows for a
    former output that have no part in a single step's cells.
    """
    of = lambda name: golden[prefix + name]
    kernels, biases = (
        [of(f"lstm_{direction}_{part}") for direction in ("fw", "bw")]
        for part in ("kernel", "bias")
    )
    gates = {
        f"{name}_{part}": jnp.stack([each[..., column] for each in both], axis=-1)
        for column, name in enumerate(("gate", "candidate"))
        for part, both in (("kernel", [each[:2] for each in kernels]), ("bias", biases))
    }
    names = {"hidden_kernel": "fc1_weight", "hidden_bias": "fc1_bias"}
    names |= {"output_kernel": "out_weight", "output_bias": "out_bias"}
    embedding = f"{prefix}epoch_embedding"
    percents = golden.get(embedding, jnp.zeros_like(golden["net/param/epoch_embedding"]))
    rest = {ours: of(theirs) for ours, theirs in names.items()}
    return {"label": of("label_embedding")[0], "percents": percents, **gates, **rest}


def inputs_of(rows):
    return rows[:, 0], rows[:, 1], rows[:, 3].astype(int)


def test_curricula(golden):
    loss, difference, percent = inputs_of(golden["vstar/inputs"])
    for name, weights in {
        "self_paced": curricula.self_paced(difference),
        "hard_example_mining": curricula.hard_examples(difference),
        "spcl_linear": curricula.linear(difference),
        "spcl_linear_gamma_0.5": curricula.linear(difference, 0.5),
        "spcl_linear_gamma_2.0": curricula.linear(difference, 2.0),
        "focal_loss": curricula.focal(loss),
        "focal_loss_gamma_0.5": curricula.focal(loss, 0.5),
        "focal_loss_gamma_2.0": curricula.focal(loss, 2.0),
        "mentornet_pd": curricula.predefined(difference, percent),
    }.items():
        close(weights, golden[f"vstar/{name}"])


def test_differences_from_a_moving_average(golden):
    share, decay = (float(golden[f"moving/{name}"]) for name in ("percentile", "decay"))
    params = mentor_of(golden, "net/param/")
    average = jnp.zeros(())
    for step, loss in enumerate(golden["moving/losses"]):
        expected = lambda name, step=step: golden[name][step]
        level = curricula.nearest_percentile(loss, share)
        close(level, expected("moving/percentile_loss"))
        average = curricula.moving_average(average, level, decay)
        close(average, expected("moving/average"))
        difference, percent = loss - average, expected("moving/epochs")
        close(curricula.self_paced(difference), expected("moving/self_paced_weights"))
        weights = curricula.predefined(difference, percent)
        close(weights, expected("moving/predefined_weights"))
        close(jnp.mean(weights * loss), expected("student/scalar"))
        close(jnp.mean(weights), expected("student/weight_decay_factor"))
        moving = mentor_weights(params, loss, difference, percent)
        close(moving, expected("moving/net_weights_pd"))
        fixed = mentor_weights(params, loss, difference, jnp.minimum(percent, 18))
        close(1.0 if percent < 17 else fixed, expected("moving/net_weights_dd"))


def test_plans_of_dropout(golden):
    plans = (
        ((0.5, 17), (0.05, 83)),
        ((0.5, 17), (0.05, 78), (0.9, 5)),
        ((0.0, 100),),
    )
    for number, plan in enumerate(plans):
        close(curricula.rates_by_percent(plan), golden[f"dropout/schedule{number}"])


def test_the_mentor(golden):
    params = mentor_of(golden, "net/param/")
    inputs = inputs_of(golden["net/inputs"])
    close(Mentor().apply({"params": params}, *inputs), golden["net/logits"])
    close(mentor_weights(params, *inputs), golden["net/weights"])


@pytest.mark.parametrize("targets", ["binary", "fractional"])
def test_the_mentor_learns(golden, targets):
    of = lambda name: golden[f"train/{targets}/{name}"]
    params = mentor_of(golden, "net/param/")
    criterion = {"binary": optax.sigmoid_binary_cross_entropy, "fractional": squared_error}[targets]
    lesson = Lesson(*inputs_of(golden["net/inputs"]), of("targets"))

    def loss(params):
        return jnp.mean(criterion(Mentor().apply({"params": params}, *lesson[:3]), lesson.targets))

    value, gradient = jax.value_and_grad(loss)(params)
    close(value, of("loss"))
    chex.assert_trees_all_close(gradient, mentor_of(golden, f"train/{targets}/grad/"), atol=1e-10)
    close(optax.tree.norm(gradient), of("grad_global_norm"))
    mentor = MentorState(params, mentor_optimizer().init(params))
    after, logits = jax.jit(functools.partial(study, criterion=criterion))(mentor, lesson)
    close(logits, golden["net/logits"])
    expected = mentor_of(golden, f"train/{targets}/after/")
    chex.assert_trees_all_close(after.params, expected, rtol=0, atol=1e-7)


def test_the_mentors_optimizer(wide):
    gradients = np.random.default_rng(0).normal(size=(2100, 3)) * np.array([1e-5, 1.0, 9.0])
    optimizer = mentor_optimizer()
    params, state = jnp.zeros(3), optimizer.init(jnp.zeros(3))
    with jax.numpy_dtype_promotion("standard"):
        update = jax.jit(optimizer.update)
        expected, mean, square = np.zeros((3, 3))
        for step, gradient in enumerate(gradients, 1):
            clipped = gradient * min(1, 5 / np.linalg.norm(gradient))
            mean = 0.9 * mean + 0.1 * clipped
            square = 0.999 * square + 0.001 * clipped**2
            rate = 0.1 * 0.9 ** ((step - 1) // 1000)
            rate *= np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            expected = expected - rate * mean / (np.sqrt(square) + 1e-8)
            updates, state = update(gradient, state, params)
            params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(params, expected, rtol=1e-6)


@pytest.mark.parametrize("total", [1, 7, 99, 100, 101, 39_000, 2**31 - 1])
def test_percents_of_training(total):
    steps = np.unique(np.random.default_rng(total).integers(0, total, 50)).tolist()
    for step in [0, *steps, total - 1]:
        assert curricula.percent_of(jnp.int32(step), total) == 100 * step // total


def test_dropout_leaves_a_share_of_the_batch_rounded_down():
    rates = curricula.rates_by_percent(((0.5, 17), (0.05, 78), (0.9, 5)))
    for size, percent, left in ((10, 0, 5), (11, 16, 5), (128, 17, 121), (10, 99, 1), (9, 99, 0)):
        chances = curricula.draw_chances(jax.random.key(size), size)
        mask = curricula.survivors(chances, rates, jnp.int32(percent))
        assert mask.sum() == left

    def left_of_four(key):
        return curricula.survivors(curricula.draw_chances(key, 4), rates, jnp.int32(0))

    often = jax.jit(jax.vmap(left_of_four))(jax.random.split(jax.random.key(0), 2000))
    np.testing.assert_allclose(np.mean(often, axis=0), 0.5, atol=0.05)  # any row as any other


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (((0.5, 17), (0.05, 82)), "is of 99 percent of training: its percents must add up to 100"),
        (((1.5, 100),), r"must hold rates in \[0, 1\]"),
        ((), "is of 0 percent"),
    ],
)
def test_a_plan_of_dropout_is_of_all_training(plan, message):
    with pytest.raises(ValueError, match=message):
        make(dropout=plan)
    config = recipes.cifar(10)
    config.methods = ("mentornet",)
    config.method.mentornet.dropout = plan
    with pytest.raises(
        ConfigError, match=rf"config\.method\.mentornet\.dropout.*({message}|must hold)"
    ):
        validate(config)


def test_wrong_labels_are_drawn_by_what_is_said_without_the_right_class():
    rows = 20_000
    logits = jnp.log(jnp.tile(jnp.array([0.7, 0.2, 0.1]), (rows, 1)))
    labels = jnp.zeros(rows, jnp.int32)
    keys = jax.random.split(jax.random.key(0), rows)
    given, right = mislabel(keys, logits, labels, 0.25)
    np.testing.assert_array_equal(given == labels, right)
    np.testing.assert_allclose(np.bincount(given) / rows, [0.75, 1 / 6, 1 / 12], atol=0.01)


class Table(nn.Module):
    """Logits are inputs plus a parameter of each, so that its gradient is that of the logits."""

    @nn.compact
    def __call__(self, inputs, *, train):
        return inputs + self.param("shift", nn.initializers.ones, inputs.shape, inputs.dtype)


class Network(nn.Module):
    @nn.compact
    def __call__(self, inputs, *, train):
        hidden = nn.Dense(8)(inputs)
        return nn.Dense(3)(nn.tanh(nn.BatchNorm(use_running_average=not train)(hidden)))


class Linear(nn.Module):
    @nn.compact
    def __call__(self, inputs, *, train):
        return nn.Dense(3)(inputs)


class Plain(nn.Module):
    @nn.compact
    def __call__(self, inputs, *, train):
        return nn.Dense(3)(nn.tanh(nn.Dense(8)(inputs)))


def make(model=None, optimizer=None, **chosen):
    known = {"total_steps": 100, "weight_decay": 0.1, "dropout": ((0.0, 100),)}
    model = Plain() if model is None else model
    optimizer = optax.sgd(1.0) if optimizer is None else optimizer
    return methods.mentornet(model, optimizer, **{**known, **chosen})


def batch(size=16, meta=True):
    rng = np.random.default_rng(0)
    of = lambda: (
        jnp.asarray(rng.normal(size=(size, 4)), jnp.float32),
        jnp.asarray(rng.integers(0, 3, size), jnp.int32),
    )
    inputs, labels = of()
    data = {"inputs": inputs, "labels": labels}
    if meta:
        data["meta_inputs"], data["meta_labels"] = of()
    return data


def table_batch(rows=16, classes=5):
    rng = np.random.default_rng(1)
    return {
        "inputs": jnp.asarray(rng.normal(size=(rows, classes)) * 2),
        "labels": jnp.asarray(rng.integers(0, classes, rows)),
    }


def weights_of_curriculum(name, loss, difference, percent):
    if name == "self_paced":
        return (difference <= 0).astype(float)
    if percent <= 18:
        return np.ones_like(loss)
    soft = np.clip(1 - difference, 0, 1) if percent >= 90 else difference <= 0
    return soft.astype(float)


@pytest.mark.parametrize("name", ["predefined", "self_paced"])
@pytest.mark.parametrize("burn_in", [0, 18])
def test_whole_steps(wide, name, burn_in):
    data = table_batch()
    of_class = jnp.array([1.0, 2.0, 0.5, 1.0, 3.0])
    decay, share, total = 0.02, 0.6, 23
    optimizer = optax.chain(optax.add_decayed_weights(decay), optax.sgd(0.3))
    method = make(
        Table(),
        optimizer,
        curriculum=name,
        percentile=share,
        decay=0.75,
        burn_in=burn_in,
        total_steps=total,
        weight_decay=decay,
        loss_weights=lambda labels, step: of_class[labels],
    )
    state = method.init(jax.random.key(0), data)
    step = jax.jit(method.step)
    inputs, labels = (np.asarray(data[key]) for key in ("inputs", "labels"))
    shift, average = np.ones_like(inputs), 0.0
    seen = set()
    for number in range(total):
        logits = inputs + shift
        said = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        loss = -np.log(said[np.arange(len(labels)), labels])
        average = 0.75 * average + 0.25 * np.sort(loss)[round(share * (len(loss) - 1))]
        percent = 100 * number // total
        weights = weights_of_curriculum(name, loss, loss - average, percent)
        weights = np.ones_like(loss) if percent < burn_in - 1 else weights
        seen.add(float(weights.mean()))
        by_class = np.asarray(of_class)[labels]
        gradient = (weights * by_class)[:, None] * (said - np.eye(said.shape[1])[labels])
        gradient = gradient / by_class.sum() + weights.mean() * decay * shift
        state, metrics = step(state, data, jax.random.key(number))
        close(metrics["kept"].mean(), weights.mean())
        close(metrics["loss"].mean(), loss.mean())
        shift = shift - 0.3 * gradient
        close(state.params["shift"], shift)
        close(state.collections[OWN]["average"], average)
    assert len(seen) > 2  # not always all of them
    assert state.collections[OWN]["step"] == total


def test_with_all_weights_1_it_is_plain_training():
    data = batch(meta=False)
    optimizer = optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.3))
    weights = lambda labels, step: 1.0 + labels.astype(jnp.float32)
    one, plain = (
        two_steps(method, data)
        for method in (
            make(Network(), optimizer, loss_weights=weights),
            methods.erm(Network(), optimizer, loss_weights=weights),
        )
    )
    chex.assert_trees_all_close(one[0].params, plain[0].params, rtol=1e-6, atol=1e-7)
    assert one[1]["kept"].mean() == 1


@pytest.mark.parametrize(("rate", "kept", "mask"), [(0.3, 11, None), (1.0, 0, kernels)])
def test_dropout_takes_weights_and_their_share_of_the_decay(rate, kept, mask):
    data = batch(meta=False)
    decay = 0.1
    optimizers = optax.chain(optax.add_decayed_weights(decay, mask), optax.sgd(1.0)), optax.sgd(1.0)
    chosen = {"dropout": ((rate, 100),), "decayed": mask}
    after = {}
    for optimizer, weight_decay in zip(optimizers, (decay, 0.0), strict=True):
        method = make(optimizer=optimizer, weight_decay=weight_decay, **chosen)
        state = method.init(jax.random.key(0), data)
        begun = jax.tree.map(lambda p: p + 0.5, state.params)  # biases begin as 0
        state = state.replace(params=begun)
        state, metrics = jax.jit(method.step)(state, data, jax.random.key(1))
        assert metrics["kept"].total == kept  # of 16
        after[weight_decay] = state.params
    decays = jax.tree.map(lambda _: True, begun) if mask is None else mask(begun)
    expected = jax.tree.map(
        lambda new, old, decays: new - decays * kept / 16 * decay * old, after[0.0], begun, decays
    )
    chex.assert_trees_all_close(after[decay], expected, rtol=1e-5, atol=1e-6)


def two_steps(method, data, mesh=None):
    step = method.step if mesh is None else map_over(mesh, method.step, (WHOLE, ROWS, WHOLE), WHOLE)
    state = jax.jit(method.init)(jax.random.key(0), data)
    for key in (1, 2):
        state, metrics = jax.jit(step)(state, data, jax.random.key(key))
    return state, metrics


@pytest.mark.parametrize(
    "curriculum", ["self_paced", pytest.param("data_driven", marks=pytest.mark.slow)]
)
def test_devices_make_the_same_steps(curriculum):
    chosen = dict(curriculum=curriculum, burn_in=0, dropout=((0.3, 100),), percentile=0.6)
    one = two_steps(make(**chosen), batch())
    several = two_steps(make(**chosen, axis=AXIS), batch(), data_mesh(jax.devices()[:4]))
    chex.assert_trees_all_close(several, one, rtol=2e-4, atol=1e-5)
    assert 0 < one[1]["kept"].mean() < 1


@pytest.mark.slow
def test_pmap_makes_the_same_steps():
    chosen = dict(curriculum="data_driven", burn_in=0, dropout=((0.3, 100),))
    data = batch()
    split = jax.tree.map(lambda x: x.reshape(2, 8, *x.shape[1:]), data)
    method = make(**chosen, axis="data")
    state = method.init(jax.random.key(0), data)
    step = jax.pmap(
        method.step, axis_name="data", in_axes=(None, 0, None), devices=jax.devices()[:2]
    )
    after, _ = step(state, split, jax.random.key(1))
    expected, _ = jax.jit(make(**chosen).step)(state, data, jax.random.key(1))
    chex.assert_trees_all_close(jax.tree.map(lambda x: x[0], after), expected, rtol=2e-4, atol=1e-5)


def test_counts_stay_exact_on_several_devices():
    mesh = data_mesh(jax.devices()[:3])
    counts = jnp.array([0, 1, 7, 2**24 + 1, 2**29 + 3], jnp.int32)
    alike = map_over(mesh, lambda x: combine((), own_copy(x, AXIS), AXIS)[1], (WHOLE,), WHOLE)
    np.testing.assert_array_equal(jax.jit(alike)(counts), counts)


def test_a_batch_is_not_cut():
    with pytest.raises(ValueError, match=r"mentornet: a batch's loss cannot be cut into"):
        make(microbatches=2)


def test_a_config_can_name_every_curriculum():
    named = options(methods.mentornet)["curriculum"].one_of
    assert named == (*curricula.CURRICULA, "data_driven")
    with pytest.raises(ValueError, match=r"curriculum='selfpaced' is unknown: take one of predef"):
        make(curriculum="selfpaced")


def test_data_driven_needs_examples_whose_labels_are_right():
    method = make(curriculum="data_driven")
    state = jax.eval_shape(method.init, jax.random.key(0), batch())
    with pytest.raises(ValueError, match=r"data_driven': batches need meta_inputs and meta_labels"):
        jax.eval_shape(method.step, state, batch(meta=False), jax.random.key(1))


@pytest.mark.slow
def test_the_mentor_learns_to_tell_wrong_labels_from_right_ones():
    rng = np.random.default_rng(0)
    examples, steps = 600, 300
    centres = rng.normal(size=(3, 8))
    centres *= 5 / np.linalg.norm(centres, axis=1, keepdims=True)
    labels, meta_labels = (rng.integers(0, 3, count) for count in (examples, 60))
    inputs, meta_inputs = (
        (centres[of] + rng.normal(size=(len(of), 8))).astype(np.float32)
        for of in (labels, meta_labels)
    )
    wrong = rng.random(examples) < 0.4
    given = np.where(wrong, labels + rng.integers(1, 3, examples), labels) % 3
    rows, meta_rows = rng.integers(0, examples, (steps, 64)), rng.integers(0, 60, (steps, 64))
    data = {
        "inputs": inputs[rows],
        "labels": given[rows].astype(np.int32),
        "meta_inputs": meta_inputs[meta_rows],
        "meta_labels": meta_labels[meta_rows].astype(np.int32),
    }
    method = make(
        Linear(),
        optax.sgd(0.3),
        curriculum="data_driven",
        total_steps=steps,
        weight_decay=0.0,
    )
    state = method.init(jax.random.key(0), jax.tree.map(lambda x: x[0], data))
    keys = jax.random.split(jax.random.key(1), steps)
    step = lambda state, given: method.step(state, *given)
    state, metrics = jax.jit(functools.partial(jax.lax.scan, step))(state, (data, keys))
    logits = method.predict(state.variables, inputs)
    loss = cross_entropy(logits, jnp.asarray(given, jnp.int32))
    own = state.collections[OWN]
    weights = mentor_weights(own["mentor"].params, loss, loss - own["average"], jnp.int32(18))
    assert np.mean(weights[~wrong]) > 0.9
    assert np.mean(weights[wrong]) < 0.1
    assert np.mean(metrics["told_apart"].mean()[-50:]) > 0.95
    assert np.mean(np.argmax(logits, axis=1) == labels) > 0.98


def test_the_mentor_learns_during_the_burn_in_and_leaves_no_trace_in_the_network():
    data = batch()
    make_one = functools.partial(make, Network(), burn_in=90)
    learned, ruled = (
        two_steps(make_one(curriculum=name), data) for name in ("data_driven", "predefined")
    )
    chex.assert_trees_all_close(learned[0].params, ruled[0].params)
    statistics = [state.collections["batch_stats"] for state, _ in (learned, ruled)]
    chex.assert_trees_all_close(*statistics)
    before = make_one(curriculum="data_driven").init(jax.random.key(0), data)
    mentors = [state.collections[OWN]["mentor"].params for state in (learned[0], before)]
    moved = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), *mentors)
    assert not moved.pop("percents")
    assert all(moved.values())


def test_predictions_are_the_networks():
    data = batch()
    method = make(Network(), curriculum="data_driven")
    state, _ = two_steps(method, data)
    theirs = {name: of for name, of in state.variables.items() if name != OWN}
    assert set(theirs) == {"params", "batch_stats"}
    expected = Network().apply(theirs, data["inputs"], train=False)
    chex.assert_trees_all_equal(method.predict(state.variables, data["inputs"]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("curriculum", ["data_driven", "predefined"])
def test_a_run_that_is_cut_twice_at_random_comes_to_the_same_bits(
    tmp_path, assert_cut_twice_is_the_same, curriculum
):
    data = {key: np.asarray(value) for key, value in batch(20).items()}
    meta = {"inputs": data.pop("meta_inputs"), "labels": data.pop("meta_labels")}

    def train(folder):
        optimizer = optax.sgd(0.1, momentum=0.9)
        method = make(Plain(), optimizer, curriculum=curriculum, total_steps=12, burn_in=9)
        return fit(
            method,
            data,
            tmp_path / folder,
            title=curriculum,
            beside={"meta": Beside(meta, 4)},
            steps=12,
            batch_size=8,
            seed=0,
            log_every=5,
            checkpoint_every=1,
        )

    assert_cut_twice_is_the_same(train, steps=12)


def test_a_step_that_is_skipped_is_none_of_training(tmp_path):
    data = {key: np.array(value) for key, value in batch(8, meta=False).items()}
    data["inputs"][0] = np.nan
    state = fit(
        make(),
        data,
        tmp_path,
        title="mentornet",
        steps=4,
        batch_size=4,
        seed=0,
        log_every=4,
        checkpoint_every=4,
        on_nonfinite="skip",
    )
    assert state.step == 4
    assert state.collections[OWN]["step"] == 2


def test_published_decays_are_at_the_authors_steps():
    config = recipes.cifar(10)
    published.mentornet(config)
    total = num_steps(config.train.epochs, 50_000, config.batch_size)
    assert total == 39_000
    rate = make_schedule(config.optimizer, total, 50_000 / config.batch_size)
    with jax.numpy_dtype_promotion("standard"):  # as Optax needs
        rates = np.asarray(rate(np.arange(total)))
    falls = np.flatnonzero(rates[1:] < 0.99 * rates[:-1]) + 1
    assert falls.tolist() == [19_531, 25_000, 30_000]
