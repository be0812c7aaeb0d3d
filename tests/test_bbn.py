"""BBN makes the steps of its authors' code, of networks with two branches and reversed batches."""

import csv
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats
from flax import linen as nn
from flax import traverse_util

from har_jax import config as har_config
from har_jax import losses, methods
from har_jax.data import ReversedBatches
from har_jax.data.reversed import reversed_classes
from har_jax.experiment.algorithm import Experiment
from har_jax.methods.bbn import share_at
from har_jax.methods.shared.branches import Mix, can_branch
from har_jax.models import NETWORKS, BiLSTM, CifarResNet, ConvNet, ImageNetResNet, InceptionResNetV2
from har_jax.models.layers.branches import branched, names_of
from har_jax.train.feed import Beside, open_feed
from har_jax.train.loop import fit
from har_jax.train.mesh import AXIS, ROWS, WHOLE, data_mesh, map_over
from tests.own_images import write_folder

KEY = jax.random.key(0)
close = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-10)


class Features(nn.Module):
    """Features of each branch are the inputs plus a parameter of each, whose gradient is theirs."""

    num_classes: int
    branches: int = 1

    @nn.compact
    def __call__(self, inputs, *, train, mix=None):
        def end(name):
            shift = self.param(name, nn.initializers.zeros, inputs.shape, inputs.dtype)
            return lambda x: x + shift

        ends = [end(name) for name in names_of("shift", self.branches)]
        features = branched([], ends, inputs, mix)
        return nn.Dense(self.num_classes, param_dtype=inputs.dtype, name="classifier")(features)


class Small(nn.Module):
    """A trunk with a norm that is each example's own, and dense branches."""

    branches: int = 1

    @nn.compact
    def __call__(self, inputs, *, train, mix=None):
        trunk = [nn.Dense(8), nn.LayerNorm(), nn.tanh]
        ends = [nn.Dense(4, name=name) for name in names_of("end", self.branches)]
        return nn.Dense(3)(branched(trunk, ends, inputs, mix))


def of_authors(g):
    """Variables at which features and logits are those of the file, for inputs of zero."""
    wide = lambda features: features[:, None, None]
    features = g["mix/features_conventional"], g["mix/features_rebalancing"]
    classifier = {"kernel": g["mix/classifier_weight"].T, "bias": g["mix/classifier_bias"]}
    params = dict(zip(names_of("shift", 2), map(wide, features), strict=True))
    batch = {
        "inputs": wide(jnp.zeros_like(features[0])),
        "labels": g["mix/labels_conventional"],
        "reversed_inputs": wide(jnp.zeros_like(features[1])),
        "reversed_labels": g["mix/labels_rebalancing"],
    }
    return {"params": {**params, "classifier": classifier}}, batch


def test_steps_are_those_of_the_authors(wide, golden):
    g = golden("bbn")
    start, batch = of_authors(g)
    model = Features(len(g["mix/classifier_bias"]))
    epochs = int(g["mix/max_epoch"])
    options = dict(steps_per_epoch=3, total_steps=3 * epochs, start=start)
    method = methods.bbn(model, optax.sgd(1.0), **options)
    step, state = jax.jit(method.step), method.init(KEY, batch)
    for number, epoch in enumerate(g["mix/epochs"].tolist()):
        alpha = g["mix/alpha"][number]
        of = lambda key, number=number: g[f"mix/{key}"][number]
        logits = model.clone(branches=2).apply(
            start, batch["inputs"], train=True, mix=Mix(batch["reversed_inputs"], alpha)
        )
        close(logits, of("logits"))
        for step_in_epoch in (0, 2):
            at = state.replace(step=jnp.int32(3 * (epoch - 1) + step_in_epoch))
            after, metrics = step(at, batch, KEY)
            gradient = jax.tree.map(jnp.subtract, at.params, after.params)
            first, second = names_of("shift", 2)
            close(gradient[first][:, 0, 0], of("grad_conventional"))
            close(gradient[second][:, 0, 0], of("grad_rebalancing"))
            close(gradient["classifier"]["kernel"].T, of("grad_weight"))
            close(gradient["classifier"]["bias"], of("grad_bias"))
            close(metrics["alpha"].mean(), alpha)
            both = alpha * metrics["loss"].mean() + (1 - alpha) * metrics["reversed_loss"].mean()
            close(both, of("scalar"))
            assert (epoch == 1) == (not np.any(gradient[second]))
    close(method.predict(start, batch["inputs"]), g["eval/logits"])


def test_the_share_falls_from_one_and_ends_above_zero(wide, golden):
    expected = golden("bbn")["schedule/alpha"]
    close([share_at(epoch, len(expected)) for epoch in range(len(expected))], expected)


@pytest.mark.parametrize(
    ("steps_per_epoch", "total_steps", "epochs"),
    [(22.5, 68, 3), (22.5, 56, 3), (10, 30, 3), (9, 1, 1)],
)
def test_epochs_are_those_that_are_begun(steps_per_epoch, total_steps, epochs):
    data = pairs()
    options = dict(steps_per_epoch=steps_per_epoch, total_steps=total_steps)
    method = methods.bbn(Small(), optax.sgd(0.1), **options)
    state = method.init(KEY, data)
    alpha = lambda at: method.step(state.replace(step=at), data, KEY)[1]["alpha"].mean()
    steps = jnp.arange(total_steps)
    expected = 1 - (np.floor(np.arange(total_steps) / steps_per_epoch) / epochs) ** 2
    np.testing.assert_allclose(jax.jit(jax.vmap(alpha))(steps), expected, rtol=1e-5)
    assert np.all(expected > 0)


def test_classes_are_drawn_as_by_the_authors(golden):
    g = golden("bbn")
    counts, weights = np.asarray(g["class_counts"]), np.asarray(g["sampler/class_weight"])
    np.testing.assert_allclose(np.max(counts) / counts, weights, rtol=1e-6)
    np.testing.assert_allclose(weights / weights.sum(), g["sampler/class_probability"], rtol=1e-6)
    drawn = reversed_classes(np.asarray(g["sampler/uniforms"]), counts)
    np.testing.assert_array_equal(drawn, g["sampler/sampled_class"])


def pairs(size=16, seed=0):
    rng = np.random.default_rng(seed)
    inputs = lambda: jnp.asarray(rng.normal(size=(size, 1, 1, 4)), jnp.float32)
    labels = lambda: jnp.asarray(rng.integers(0, 3, size))
    return {
        "inputs": inputs(),
        "labels": labels(),
        "reversed_inputs": inputs(),
        "reversed_labels": labels(),
    }


def two_steps(method, data, mesh=None):
    step = method.step if mesh is None else map_over(mesh, method.step, (WHOLE, ROWS, WHOLE), WHOLE)
    state = jax.jit(method.init)(KEY, data).replace(step=jnp.int32(2))
    step = jax.jit(step)
    for key in (1, 2):
        state, metrics = step(state, data, jax.random.key(key))
    return state, metrics


def make(model=None, optimizer=None, **options):
    model, optimizer = model or Small(), optimizer or optax.sgd(0.1)
    return methods.bbn(model, optimizer, steps_per_epoch=1, total_steps=5, **options)


def test_devices_and_microbatches_make_the_same_steps():
    data, weights = pairs(), methods.deferred_weights(np.array([3.0, 1.0, 0.5]), 0)
    noise = lambda key, example: example + jax.random.normal(key, example.shape)
    whole = two_steps(make(loss_weights=weights, augment=noise), data)
    mesh = data_mesh(jax.devices()[:2])
    for parts, axis in ((4, None), (2, AXIS)):
        options = dict(loss_weights=weights, augment=noise, microbatches=parts, axis=axis)
        found = two_steps(make(**options), data, mesh if axis else None)
        chex.assert_trees_all_close(found, whole, rtol=1e-4, atol=1e-5)


def test_weights_go_by_each_label_of_a_pair():
    data, table = pairs(), np.array([3.0, 1.0, 0.0])
    method = make(loss_weights=methods.deferred_weights(table, 0))
    state = method.init(KEY, data).replace(step=jnp.int32(2))
    alpha = 1 - (2 / 5) ** 2
    model = Small(branches=2)
    first, second = (
        share * jnp.asarray(table)[data[name]]
        for share, name in ((alpha, "labels"), (1 - alpha, "reversed_labels"))
    )

    def objective(params):
        mix = Mix(data["reversed_inputs"], jnp.float32(alpha))
        logits = model.apply({"params": params}, data["inputs"], train=True, mix=mix)
        one, other = (
            losses.cross_entropy(logits, data[name]) for name in ("labels", "reversed_labels")
        )
        return jnp.sum(first * one + second * other) / jnp.sum(first + second)

    gradients = jax.jit(jax.grad(objective))(state.params)
    after, _ = jax.jit(method.step)(state, data, KEY)
    expected = jax.tree.map(lambda p, g: p - 0.1 * g, state.params, gradients)
    chex.assert_trees_all_close(after.params, expected, rtol=1e-5, atol=1e-6)


BRANCHING = {
    "convnet": ConvNet(3, widths=(4, 8)),
    "cifar_resnet": CifarResNet(3, depth=8, widths=(4, 4, 8)),
    "imagenet_resnet": ImageNetResNet(3, depth=14, width=2),
    "inception_resnet_v2": InceptionResNetV2(3, (0, 0, 0)),
}
SLOW = ("imagenet_resnet", "inception_resnet_v2")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in BRANCHING],
)
def test_two_branches_are_two_networks_that_share_all_but_their_ends(name):
    one = BRANCHING[name]
    two = one.clone(branches=2)
    size = {"inception_resnet_v2": 75, "imagenet_resnet": 33}.get(name, 8)
    rng = np.random.default_rng(0)
    draw = lambda: jnp.asarray(rng.normal(size=(4, size, size, 1)), jnp.float32)
    images, others, alpha = draw(), draw(), 0.7
    variables = jax.jit(lambda: two.init(KEY, images, train=False))()
    noise = lambda leaf: leaf + 0.3 * rng.uniform(size=leaf.shape).astype(np.float32)
    variables = jax.tree.map(noise, variables)
    flat = traverse_util.flatten_dict(variables)
    kernel = ("params", "Dense_0" if name == "convnet" else "classifier", "kernel")
    bias = (*kernel[:2], "bias")

    def branch(number, flat):
        """The variables of a network of one branch, whose classifier has its part and no bias."""
        found, suffix = {}, "_branch2"
        for path, leaf in flat.items():
            own = tuple(part.removesuffix(suffix) for part in path)
            if own == path and number == 1 and any(p + suffix in names for p in path):
                continue
            if own == path or number == 1:
                found[own] = leaf
        found[kernel] = jnp.split(flat[kernel], 2)[number]
        found[bias] = jnp.zeros(3)
        return traverse_util.unflatten_dict(found)

    names = {part for path in flat for part in path}
    run = jax.jit(lambda v, x: one.apply(v, x, train=True, mutable=["batch_stats"]))
    mixed = jax.jit(
        lambda v, x, o: two.apply(v, x, train=True, mutable=["batch_stats"], mix=Mix(o, alpha))
    )
    logits, changed = mixed(variables, images, others)
    first, between = run(branch(0, flat), images)
    between = traverse_util.flatten_dict(between)
    second, after = run(branch(1, {**flat, **between}), others)
    expected = 2 * alpha * first + 2 * (1 - alpha) * second + flat[bias]
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-4)
    ends = {path for path in flat if any(part + "_branch2" in names for part in path)}
    changed = traverse_util.flatten_dict(changed)
    of_first = {path: changed[path] for path in ends & changed.keys()}
    chex.assert_trees_all_close(of_first, {p: between[p] for p in of_first}, rtol=1e-4, atol=1e-5)
    seen_last = branch(1, {**flat, **changed})["batch_stats"]
    chex.assert_trees_all_close(seen_last, after["batch_stats"], rtol=1e-4, atol=1e-5)

    plain = jax.jit(lambda v, x: one.apply(v, x, train=False))
    predicted = jax.jit(lambda v, x: two.apply(v, x, train=False))(variables, images)
    summed = sum(plain(branch(number, flat), images) for number in (0, 1)) + flat[bias]
    np.testing.assert_allclose(predicted, summed, rtol=1e-3, atol=1e-4)


def test_networks_that_cannot_branch_are_refused():
    assert {name for name, network in NETWORKS.items() if can_branch(network)} == {*BRANCHING}
    assert can_branch(Small())
    assert not can_branch(functools.partial(Small))
    with pytest.raises(TypeError, match=r"bbn: BiLSTM cannot have two branches: .* branches and"):
        make(BiLSTM(3, 9))
    with pytest.raises(ValueError, match="branches=3 must be 1 or 2"):
        ConvNet(3, branches=3)
    mix = Mix(jnp.ones((2, 1, 1, 4)), jnp.float32(0.5))
    with pytest.raises(ValueError, match=r"mix is of two branches, .* has branches=1"):
        Small().init(KEY, mix.inputs, train=True, mix=mix)


def test_what_is_no_pair_and_no_step_is_refused():
    method, data = make(), pairs()
    state = method.init(KEY, data)
    alone = {name: data[name] for name in ("inputs", "labels")}
    fewer = {**data, "reversed_labels": data["reversed_labels"][1:]}
    for wrong in (alone, fewer):
        with pytest.raises(ValueError, match=r"batches need reversed_inputs and .* labels, 16"):
            method.step(state, wrong, KEY)
    with pytest.raises(ValueError, match="total_steps=0 at least 1"):
        methods.bbn(Small(), optax.sgd(0.1), steps_per_epoch=1, total_steps=0)


def test_reversed_batches_are_drawn_by_class_and_then_uniformly():
    counts = np.array([40, 0, 12, 3, 1])
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(5), counts)).astype(np.int32)
    batches = ReversedBatches(labels, 64, seed=3)
    drawn = np.concatenate([batches(step) for step in range(200)])
    assert drawn.dtype == np.int32
    present = counts > 0
    weights = np.where(present, counts.max() / np.maximum(counts, 1), 0)
    share = weights / weights.sum()
    of_class = np.bincount(labels[drawn], minlength=5)
    assert of_class[1] == 0
    by_class = scipy.stats.chisquare(of_class[present], (share * len(drawn))[present])
    per_example = len(drawn) * (share / np.maximum(counts, 1))[labels]
    by_example = scipy.stats.chisquare(np.bincount(drawn, minlength=len(labels)), per_example)
    assert min(by_class.pvalue, by_example.pvalue) > 1e-3
    again = ReversedBatches(labels, 64, seed=3)
    np.testing.assert_array_equal(again(7), batches(7))
    assert np.any(batches(7) != batches(8))
    assert np.any(batches(7) != ReversedBatches(labels, 64, seed=4)(7))
    assert reversed_classes(np.zeros(1), np.array([0, 2]))[0] == 1  # never one without examples
    for wrong in (labels[:0], labels - 1):
        with pytest.raises(ValueError, match="labels must not be negative, and there must be some"):
            ReversedBatches(wrong, 4, 0)


def data_set(size=30):
    rng = np.random.default_rng(0)
    labels = np.sort(rng.choice(3, size, p=[0.7, 0.2, 0.1])).astype(np.int32)
    return {"inputs": rng.normal(size=(size, 1, 1, 4)).astype(np.float32), "labels": labels}


def test_other_rows_of_the_same_data_lie_on_the_devices_once():
    data, mesh = data_set(), data_mesh(jax.devices()[:2])
    beside = {"reversed": Beside(data, 8, ReversedBatches), "more": Beside(data_set(), 8)}
    feed = open_feed(data, 8, 0, mesh, range(3), beside)
    (own, reversed_), other = feed.resident
    for name in data:
        assert reversed_[name] is own[name]
        assert other[name] is not own[name]
    sent = jax.tree.map(lambda x: x[0], feed.send(2, 1, 1))
    batch = feed.batch(feed.resident, sent)
    for prefix in ("", "reversed_"):
        rows = batch[f"{prefix}index"]
        np.testing.assert_array_equal(batch[f"{prefix}inputs"], data["inputs"][rows])
        np.testing.assert_array_equal(batch[f"{prefix}labels"], data["labels"][rows])
    assert np.any(batch["index"] != batch["reversed_index"])


@pytest.mark.slow
def test_a_run_that_is_cut_twice_at_random_comes_to_the_same_bits(
    tmp_path, assert_cut_twice_is_the_same
):
    data = data_set()
    beside = {"reversed": Beside(data, 8, ReversedBatches)}

    def train(folder):
        options = dict(steps=10, batch_size=8, seed=0, log_every=3, checkpoint_every=1)
        method = methods.bbn(Small(), optax.adam(0.1), steps_per_epoch=30 / 8, total_steps=10)
        return fit(method, data, tmp_path / folder, title="bbn", beside=beside, **options)

    assert_cut_twice_is_the_same(train, steps=10)


def tiny(*names, **changes):
    config = har_config.base()
    config.methods = names
    config.model.widths = (4, 8) if ":" not in changes.get("model.name", "") else None
    config.train.epochs = config.pretrain.epochs = 2.0
    config.devices = 1
    config.update_from_flattened_dict(changes)
    har_config.validate(config)
    return config


@pytest.mark.slow
def test_an_experiment_trains_and_predicts(tmp_path):
    imbalance = {"data.imbalance.kind": "exponential", "data.imbalance.ratio": 10.0}
    config = tiny("bbn", **{"data.train_size": 200, "batch_size": 32}, **imbalance)
    for stage in ("train", "predict"):
        Experiment(config, tmp_path).run(stage)
    evaluation = np.load(tmp_path / "train" / "bbn" / "evaluation.npz")
    with (tmp_path / "predict" / "bbn.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "test"]
    found = [int(row["prediction"]) for row in rows]
    np.testing.assert_array_equal(found, evaluation["test_prediction"])


@pytest.mark.slow
def test_images_in_files_come_in_pairs(tmp_path):
    write_folder(tmp_path / "images", {"train/a": 8, "train/b": 3, "test/a": 2, "test/b": 2})
    changes = {
        "data.source": "folder",
        "data.root": str(tmp_path / "images"),
        "data.image_size": 16,
        "data.augment": "resized_crop_and_flip",
        "batch_size": 4,
    }
    Experiment(tiny("bbn", **changes), tmp_path / "run").run()


def test_a_config_whose_network_cannot_branch_is_refused():
    changes = {"model.name": "bilstm", "regularizer.layers": "embeddings_and_recurrent"}
    changes |= {"data.source": "csv", "data.table": "texts.csv"}
    with pytest.raises(
        har_config.ConfigError, match=r"'bbn' needs a network of two branches, .*'bilstm' .* convn"
    ):
        tiny("bbn", **changes)


NETWORK = """\
from flax import linen as nn
from har_jax.models.layers.branches import branched


class Ours(nn.Module):
    num_classes: int
    width: int = 4
    branches: int = 1

    @nn.compact
    def __call__(self, images, *, train, mix=None):
        trunk = [nn.Conv(self.width, (3, 3)), nn.LayerNorm(), nn.relu]
        ends = [nn.Conv(self.width, (3, 3)) for _ in range(self.branches)]
        return nn.Dense(self.num_classes)(branched(trunk, ends, images, mix))


class Forgetful(Ours):
    @nn.compact
    def __call__(self, images, *, train, mix=None):
        assert mix is None or mix.share[0]
        return nn.Dense(self.num_classes)(images.mean((1, 2)))


class Single(nn.Module):
    num_classes: int

    @nn.compact
    def __call__(self, images, *, train):
        return nn.Dense(self.num_classes)(images.mean((1, 2)))
"""


def test_a_network_of_one_s_own_may_have_branches(tmp_path, monkeypatch):
    (tmp_path / "branching_nets.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    of = lambda name: tiny("bbn", **{"model.name": f"branching_nets:{name}"}, **small)
    small = {"data.train_size": 64, "batch_size": 32, "train.epochs": 1.0}
    Experiment(of("Ours"), tmp_path / "ours").run("train")
    assert (tmp_path / "ours" / "train" / "bbn" / "evaluation.npz").exists()
    with pytest.raises(har_config.ConfigError, match=r"two branches, .*Single' cannot have: take"):
        of("Single")
    with pytest.raises(har_config.ConfigError, match=r"Forgetful' with branches=2 fails with"):
        Experiment(of("Forgetful"), tmp_path / "forgetful").run("train")
