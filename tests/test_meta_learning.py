"""Steps that learn from examples known to be labelled rightly are those of the authors' code."""

import functools

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from har_jax import losses, methods
from har_jax.methods.mw_net import COLLECTION
from har_jax.methods.shared.meta import Linearized
from har_jax.models.layers.convolution import conv3x3
from har_jax.train.feed import Beside
from har_jax.train.loop import fit
from har_jax.train.mesh import AXIS, axis_of, data_mesh
from tests.test_baselines import Network, batch, close, two_steps

KEY = jax.random.key(0)


class TwoLayers(nn.Module):
    classes: int = 4
    hidden: int = 8

    @nn.compact
    def __call__(self, inputs, *, train):
        dense = lambda width, name: nn.Dense(width, param_dtype=inputs.dtype, name=name)
        hidden = nn.tanh(dense(self.hidden, "linear1")(inputs))
        return dense(self.classes, "linear2")(hidden)


def rows(g, step):
    names = {"inputs": "x", "labels": "y", "meta_inputs": "x_meta", "meta_labels": "y_meta"}
    return {name: g[key][step] for name, key in names.items()}


def step_of(method):
    step = jax.jit(method.step)
    return lambda state, batch: step(state, batch, jax.random.key(1))


def gradient_of(make, state, batch):
    """The gradient that a method takes, by a step without momentum."""
    method = make(optax.sgd(1.0))
    after, metrics = step_of(method)(state.replace(opt_state=optax.sgd(1.0).init(0)), batch)
    return jax.tree.map(jnp.subtract, state.params, after.params), metrics


def test_l2rw(wide, golden):
    g = golden("l2rw")
    layers = {"linear1": ("w1", "b1"), "linear2": ("w2", "b2")}
    of = lambda prefix: {
        layer: {"kernel": g[f"{prefix}/{kernel}"], "bias": g[f"{prefix}/{bias}"]}
        for layer, (kernel, bias) in layers.items()
    }
    classes, hidden = g["init/b2"].shape[0], g["init/b1"].shape[0]
    model = TwoLayers(classes, hidden)
    make = lambda optimizer: methods.l2rw(model, optimizer, start={"params": of("init")})
    decay = optax.add_decayed_weights(float(g["weight_decay"]))
    method = make(optax.chain(decay, optax.sgd(float(g["lr"]), momentum=float(g["momentum"]))))
    state = method.init(KEY, rows(g, 0))
    for step in range(len(g["x"])):
        data = rows(g, step)
        gradient, _ = gradient_of(make, state, data)
        chex.assert_trees_all_close(gradient, of(f"step{step}/grad"), rtol=0, atol=1e-10)
        state, metrics = step_of(method)(state, data)
        chex.assert_trees_all_close(state.params, of(f"step{step}/param"), rtol=0, atol=1e-10)
        close(metrics["meta_loss"].mean(), g[f"step{step}/meta_loss_before"])
        close(metrics["loss"].mean(), g[f"step{step}/loss"].mean())
        assert metrics["kept"].total == np.sum(g[f"step{step}/weights"] > 0)


def test_what_an_example_is_worth_to_clean_ones(wide, golden):
    g = golden("l2rw")
    params = {key: g[f"init/{key}"] for key in ("w1", "b1", "w2", "b2")}

    def loss(params, x, y):
        hidden = jnp.tanh(x @ params["w1"] + params["b1"])
        return losses.cross_entropy(hidden @ params["w2"] + params["b2"], y)

    sets = {"step0": rows(g, 0)}
    names = {"inputs": "x", "labels": "y", "meta_inputs": "x_meta", "meta_labels": "y_meta"}
    sets["all_negative"] = {name: g[f"all_negative/{key}"] for name, key in names.items()}
    for name, data in sets.items():
        mean = lambda params, data=data: loss(params, data["meta_inputs"], data["meta_labels"])
        clean = jax.grad(lambda params, mean=mean: jnp.mean(mean(params)))(params)
        here = Linearized(
            lambda params, data=data: loss(params, data["inputs"], data["labels"]), params
        )
        close(here.along(clean), g[f"{name}/meta_gradient"])
        positive = np.maximum(here.along(clean), 0)
        close(positive / (positive.sum() or 1), g[f"{name}/weights"])


def test_a_batch_that_serves_no_clean_example_changes_nothing(wide, golden):
    g = golden("l2rw")
    names = {"inputs": "x", "labels": "y", "meta_inputs": "x_meta", "meta_labels": "y_meta"}
    data = {name: g[f"all_negative/{key}"] for name, key in names.items()}
    start = {
        "linear1": {"kernel": g["init/w1"], "bias": g["init/b1"]},
        "linear2": {"kernel": g["init/w2"], "bias": g["init/b2"]},
    }
    model = TwoLayers(g["init/b2"].shape[0], g["init/b1"].shape[0])
    method = methods.l2rw(model, optax.sgd(0.1), start={"params": start})
    state = method.init(KEY, data)
    after, metrics = step_of(method)(state, data)
    chex.assert_trees_all_equal(after.params, state.params)
    assert metrics["kept"].total == 0


def mw_net_of(g, prefix):
    """The parameters of a network of two layers, whose kernels PyTorch has the other way round."""
    return {
        layer: {"kernel": g[f"{prefix}/{layer}.weight"].T, "bias": g[f"{prefix}/{layer}.bias"]}
        for layer in ("linear1", "linear2")
    }


def nesterov(g, rate):
    decay = optax.add_decayed_weights(float(g["weight_decay"]))
    return optax.chain(decay, optax.sgd(rate, momentum=0.9, nesterov=True))


def begin(method, g, meta_optimizer, data):
    params = mw_net_of(g, "init/weight_net")
    state = method.init(KEY, data)
    own = {"params": params, "opt_state": meta_optimizer.init(params)}
    begun = {COLLECTION: {**own, "step": jnp.zeros((), jnp.int32)}}
    return state.replace(collections=begun)


@pytest.mark.parametrize("script", ["current", "older"])
def test_mw_net(wide, golden, script):
    g = golden("mwnet")
    rate, momentum = float(g["lr"]), float(g["momentum"])
    decay = optax.add_decayed_weights(float(g["weight_decay"]))
    meta_decay = optax.add_decayed_weights(float(g["meta_weight_decay"]))
    if script == "current":
        optimizer = optax.chain(decay, optax.sgd(rate, momentum=momentum))
        meta_optimizer = optax.chain(meta_decay, optax.adam(float(g["meta_lr"])))
        steps = [f"step{step}" for step in range(len(g["x"]))]
    else:
        optimizer = nesterov(g, rate)
        meta_optimizer = nesterov(g, float(g["meta_lr"]))
        steps = ["normalized"]
    classes, hidden = (len(g[f"init/model/linear{layer}.bias"]) for layer in (2, 1))
    make = lambda optimizer, meta_optimizer=meta_optimizer: methods.mw_net(
        TwoLayers(classes, hidden),
        optimizer,
        learning_rate=lambda step: rate,
        units=len(g["init/weight_net/linear1.bias"]),
        normalize=script == "older",
        meta_optimizer=meta_optimizer,
        start={"params": mw_net_of(g, "init/model")},
    )
    state = begin(make(optimizer), g, meta_optimizer, rows(g, 0))
    assert_close = lambda found, expected: chex.assert_trees_all_close(
        found, expected, rtol=0, atol=1e-10
    )
    for number, step in enumerate(steps):
        data = rows(g, number)
        net = state.collections[COLLECTION]["params"]
        plain = make(optimizer, optax.sgd(1.0))
        after, _ = step_of(plain)(begin_from(state, optax.sgd(1.0)), data)
        moved = after.collections[COLLECTION]["params"]
        assert_close(jax.tree.map(jnp.subtract, net, moved), mw_net_of(g, f"{step}/meta_grad"))
        gradient, metrics = gradient_of(make, state, data)
        assert_close(gradient, mw_net_of(g, f"{step}/grad"))
        close(metrics["meta_loss"].mean(), g[f"{step}/meta_loss"])
        if script == "current":
            close(metrics["weight"].mean(), g[f"{step}/weight"].mean())
        state, _ = step_of(make(optimizer))(state, data)
        assert_close(state.params, mw_net_of(g, f"{step}/model"))
        assert_close(state.collections[COLLECTION]["params"], mw_net_of(g, f"{step}/weight_net"))


def begin_from(state, meta_optimizer):
    own = state.collections[COLLECTION]
    fresh = {**own, "opt_state": meta_optimizer.init(own["params"])}
    return state.replace(collections={COLLECTION: fresh})


class Normalized(nn.Module):
    """With statistics of the batch, and convolutions that have no forward mode."""

    @nn.compact
    def __call__(self, inputs, *, train):
        hidden = conv3x3(4)(inputs)
        hidden = nn.BatchNorm(use_running_average=not train)(hidden)
        return nn.Dense(3)(nn.relu(hidden).mean((1, 2)))


def images(size=6):
    rng = np.random.default_rng(0)
    draw = lambda count: jnp.asarray(rng.normal(size=(count, 5, 5, 2)), jnp.float32)
    labels = lambda count: jnp.asarray(rng.integers(0, 3, count))
    names = ("inputs", "labels", "meta_inputs", "meta_labels")
    return dict(zip(names, (draw(size), labels(size), draw(4), labels(4)), strict=True))


@pytest.mark.slow
def test_products_with_gradients_are_those_one_by_one():
    data, model = images(), Normalized()
    variables = model.init(KEY, data["inputs"], train=False)

    def loss(params):
        collections = {**variables, "params": params}
        logits, _ = model.apply(collections, data["inputs"], train=True, mutable=["batch_stats"])
        return losses.cross_entropy(logits, data["labels"])

    here = Linearized(loss, variables["params"])
    direction = jax.tree.map(jnp.cos, variables["params"])
    one_by_one = jax.jacrev(loss)(variables["params"])
    flat = lambda tree: jnp.concatenate([x.reshape(-1) for x in jax.tree.leaves(tree)])
    expected = jax.vmap(flat)(one_by_one) @ flat(direction)
    np.testing.assert_allclose(here.along(direction), expected, rtol=1e-4, atol=1e-6)
    weights = jnp.arange(6.0)
    summed = jax.tree.map(lambda x: jnp.tensordot(weights, x, 1), one_by_one)
    chex.assert_trees_all_close(here.gradient(weights), summed, rtol=1e-4, atol=1e-6)


MAKE = {
    "l2rw": methods.l2rw,
    "mw_net": functools.partial(methods.mw_net, learning_rate=lambda step: 0.1),
}


@pytest.mark.parametrize("name", MAKE)
def test_only_the_training_batch_counts_for_running_statistics(name):
    data = images()
    make = lambda make: make(Normalized(), optax.sgd(0.1))
    method, plain = make(MAKE[name]), make(methods.erm)
    state = method.init(KEY, data)
    after, _ = step_of(method)(state, data)
    expected, _ = step_of(plain)(plain.init(KEY, data), data)
    chex.assert_trees_all_close(
        after.collections["batch_stats"], expected.collections["batch_stats"], rtol=1e-6
    )
    assert jnp.all(jnp.isfinite(method.predict(after.variables, data["inputs"])))


@pytest.mark.parametrize("name", MAKE)
def test_a_batch_without_clean_examples_is_refused(name):
    data = images()
    method = MAKE[name](Normalized(), optax.sgd(0.1))
    state = method.init(KEY, data)
    del data["meta_inputs"], data["meta_labels"]
    with pytest.raises(ValueError, match=f"{name}: batches need meta_inputs and meta_labels"):
        method.step(state, data, KEY)


@pytest.mark.parametrize("weighting", ["random", "inverse"])
def test_other_weights_have_the_mean_of_those_that_are_learned(weighting):
    data = images()

    def after(weighting):
        method = MAKE["mw_net"](Normalized(), optax.sgd(0.1), weighting=weighting)
        return step_of(method)(method.init(KEY, data), data)

    (learned, usual), (other, metrics) = after("learned"), after(weighting)
    np.testing.assert_allclose(metrics["weight"].mean(), usual["weight"].mean(), rtol=1e-5)
    collections = (each.collections[COLLECTION] for each in (other, learned))
    chex.assert_trees_all_close(*collections, rtol=1e-5, atol=1e-12)
    assert not np.allclose(other.params["Dense_0"]["bias"], learned.params["Dense_0"]["bias"])


@pytest.mark.parametrize("options", [{"normalize": True}, {"weighting": "inverse"}])
def test_weights_of_a_batch_are_those_of_all_devices(options):
    data, mesh = batch(), data_mesh(jax.devices()[:4])
    make = functools.partial(MAKE["mw_net"], Network(), optax.sgd(0.1), **options)
    one, several = two_steps(make(), data), two_steps(make(axis=AXIS), data, mesh)
    chex.assert_trees_all_close(several, one, rtol=2e-4, atol=1e-5)


@pytest.mark.slow
def test_a_run_with_examples_beside_its_batches_is_the_same_on_several_devices(tmp_path):
    every = {key: np.asarray(value) for key, value in batch(20).items()}
    data = {key: every[key] for key in ("inputs", "labels")}
    beside = {"meta": Beside({key: every[f"meta_{key}"] for key in data}, 6)}
    options = dict(steps=4, batch_size=8, seed=0, log_every=2, checkpoint_every=4, beside=beside)

    def train(count):
        mesh = data_mesh(jax.devices()[:count])
        method = MAKE["mw_net"](Network(), optax.sgd(0.1), axis=axis_of(mesh))
        folder = tmp_path / str(count)
        return fit(method, data, folder, title=str(count), mesh=mesh, **options)

    chex.assert_trees_all_close(train(2), train(1), rtol=2e-4, atol=1e-5)


class Clashing(Network):
    @nn.compact
    def __call__(self, inputs, *, train):
        self.variable(COLLECTION, "scale", jnp.ones, ())
        return super().__call__(inputs, train=train)


def test_a_networks_collection_of_the_methods_name_is_refused():
    with pytest.raises(ValueError, match=f"the network has a collection called {COLLECTION}"):
        MAKE["mw_net"](Clashing(), optax.sgd(0.1)).init(KEY, batch())
