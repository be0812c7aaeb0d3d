"""A person's own network of NNX, by its import path: trained as one of Linen is."""

import csv
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import har_jax
import har_jax.nnx
from har_jax import config as har_config
from har_jax.config import ConfigError
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.build import make_filter, make_model
from har_jax.losses import cross_entropy
from har_jax.methods import erm
from har_jax.nnx.network import linen_class
from har_jax.system.files import read_arrays
from har_jax.train.mesh import data_mesh
from har_jax.train.metrics import read_metrics


class Net(nnx.Module):
    """With all that changes in a call."""

    def __init__(
        self,
        num_classes: int,
        *,
        inputs: int = 64,
        widths: tuple[int, ...] = (8, 6),
        rate: float = 0.25,
        dtype=None,
        rngs: nnx.Rngs,
    ):
        sizes = [inputs, *widths]
        self.layers = nnx.List(
            [nnx.Linear(*each, dtype=dtype, rngs=rngs) for each in zip(sizes, widths, strict=False)]
        )
        self.stem_norm = nnx.BatchNorm(widths[0], dtype=dtype, momentum=0.9, rngs=rngs)
        self.norms = nnx.List([nnx.LayerNorm(each, dtype=dtype, rngs=rngs) for each in widths[1:]])
        self.dropout = nnx.Dropout(rate, rngs=rngs)
        self.again = nnx.Dropout(rate, rngs=rngs)
        self.calls = nnx.Variable(jnp.zeros((), jnp.int32))
        self.fixed = jnp.arange(float(widths[-1]))
        self.head = nnx.Linear(widths[-1], num_classes, dtype=dtype, rngs=rngs)

    def __call__(self, images):
        return self.logits(images)

    def logits(self, images, predicts=None):
        self.calls[...] += 1
        first, *rest = self.layers
        x = images.reshape(len(images), -1)
        x = nnx.relu(self.stem_norm(first(x), use_running_average=predicts))
        for layer, norm in zip(rest, self.norms, strict=True):
            x = nnx.relu(norm(layer(x)))
        self.features = nnx.Intermediate(x)
        for dropout in (self.dropout, self.again):
            x = dropout(x, deterministic=predicts)
        return self.head(x + self.fixed.astype(x.dtype))


class Told(Net):
    def __init__(net, num_classes: int, *, rate: float = 0.25, rngs: nnx.Rngs):
        super().__init__(num_classes, rate=rate, rngs=rngs)

    def __call__(self, images, train):
        return self.logits(images, not train)


class Renewing(Net):
    def __call__(self, images):
        self.late = nnx.Variable(jnp.ones(3))
        return super().__call__(images)


class Jitted(Net):
    def __call__(self, images):
        return nnx.jit(lambda norm, x: norm(x))(self.last, super().__call__(images))

    def __init__(self, num_classes: int, *, rate: float = 0.0, rngs: nnx.Rngs):
        super().__init__(num_classes, rate=rate, rngs=rngs)
        self.fixed = nnx.data(self.fixed)
        self.last = nnx.BatchNorm(num_classes, rngs=rngs)


class Counting(Net):
    count = 0

    def __call__(self, images):
        self.count = self.count + 1
        return super().__call__(images)


class Spare(Net):
    def __init__(self, num_classes: int, *, rngs: nnx.Rngs):
        super().__init__(num_classes, rngs=rngs)
        self.spare = nnx.LayerNorm(3, rngs=rngs)


class Streamless(nnx.Module):
    def __init__(self, num_classes: int):
        self.head = nnx.Linear(64, num_classes, rngs=nnx.Rngs(0))

    def __call__(self, images):
        return self.head(images)


class Positional(Streamless):
    def __init__(self, num_classes: int, rngs: nnx.Rngs, /):
        super().__init__(num_classes)


class Clashing(Net):
    def __init__(self, num_classes: int, *, scope: int = 1, rngs: nnx.Rngs):
        super().__init__(num_classes, rngs=rngs)


class Narrow(Net):
    def __init__(self, num_classes: int, *, rngs: nnx.Rngs):
        super().__init__(num_classes, inputs=63, rngs=rngs)


class Silent(nnx.Module):
    def __init__(self, num_classes: int, *, rngs: nnx.Rngs):
        pass


def linear(module, method_name, *, least: int = 1):
    selected = isinstance(module, nnx.Linear) and module.out_features >= least
    return selected and method_name == "__call__"


RNG = np.random.default_rng(0)
IMAGES = jnp.asarray(RNG.uniform(size=(12, 8, 8, 1)), jnp.float32)
LABELS = jnp.asarray(RNG.integers(0, 10, 12), jnp.int32)
DROPOUT = {"dropout": jax.random.key(5)}


def tiny(name="Net", *methods, **changes):
    config = har_config.base()
    config.methods = methods or ("erm", "har")
    config.data.train_size = 200
    config.batch_size = 50
    config.devices = 1
    config.log_every = config.checkpoint_every = 4
    config.train.epochs, config.pretrain.epochs = 2.0, 1.0
    config.model.name = f"{__name__}:{name}"
    for key, value in changes.items():
        config.update_from_flattened_dict({key.replace("__", "."): value})
    har_config.validate(config)
    return config


def begun(kind=Net, **options):
    model = linen_class(kind)(num_classes=10, **options)
    return model, jax.jit(lambda key: model.init(key, IMAGES, train=False))(jax.random.key(0))


def same_module(model, variables, kind=Net, **options):
    """The NNX module that has these variables, and draws no dropout."""
    net = kind(10, **options, rngs=nnx.Rngs(0))
    for collection, of in (("params", nnx.Param), ("batch_stats", nnx.BatchStat)):
        flat = nnx.to_flat_state(nnx.state(net, of))
        for path, variable in flat:
            value = variables[collection]
            for part in path:
                value = value[str(part)]
            variable.set_raw_value(value)
        nnx.update(net, nnx.from_flat_state(flat))
    return net


@pytest.mark.parametrize("kind", [Net, Told, Jitted])
def test_r_and_statistics_are_those_of_the_same_module(kind):
    model, variables = begun(kind, rate=0.0)
    loss = lambda logits: cross_entropy(logits, LABELS)
    r = jax.jit(
        lambda variables: har_jax.loss_and_jacobian_norm(model.apply)(
            loss, variables, IMAGES, train=True, mutable=["batch_stats", "state"], rngs=DROPOUT
        )
    )(variables)
    net = same_module(model, variables, kind, rate=0.0)
    net.train()
    args = (True,) if kind is Told else ()
    loss_and_norm = har_jax.nnx.loss_and_jacobian_norm()
    expected = nnx.jit(lambda net: loss_and_norm(loss, net, IMAGES, *args))(net)
    assert set(r.layer_norms) - {"last"} == {"stem_norm", "norms/0"}
    np.testing.assert_allclose(r.loss, expected.loss, rtol=1e-4)
    np.testing.assert_allclose(r.norm, expected.norm, rtol=1e-4)
    mean = r.mutated["batch_stats"]["stem_norm"]["mean"]
    np.testing.assert_allclose(mean, net.stem_norm.mean[...], rtol=1e-5)
    assert np.any(mean != variables["batch_stats"]["stem_norm"]["mean"])
    assert int(r.mutated["state"]["calls"]) == 1
    assert set(variables) == {"params", "batch_stats", "state"}
    net.eval()
    args = (False,) if kind is Told else ()
    predict = jax.jit(lambda variables: model.apply(variables, IMAGES, train=False))
    expected = nnx.jit(lambda net: net(IMAGES, *args))(net)
    np.testing.assert_allclose(predict({**variables, **r.mutated}), expected, rtol=1e-4)


def test_filters_of_a_config_are_asked_for_modules_of_nnx():
    model, variables = begun(rate=0.0)

    def names(layers):
        loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply, layers)
        loss = lambda logits: cross_entropy(logits, LABELS)
        call = lambda: loss_and_norm(loss, variables, IMAGES, train=False).layer_norms
        return set(jax.eval_shape(call))

    assert names(har_jax.normalization_layers_but_stem) == {"norms/0"}
    with pytest.raises(har_jax.TapError, match=r"such as `lambda module, method_name: isinstance"):
        names(lambda path, module: isinstance(module, nnx.Linear))
    found = tiny(regularizer__layers=f"{__name__}:linear")
    assert names(make_filter(found.regularizer)) == {"layers/0", "layers/1", "head"}
    found.regularizer.options.least = 7
    assert names(make_filter(found.regularizer)) == {"layers/0", "head"}


def test_dropout_is_of_the_given_key_alone():
    model, variables = begun(rate=0.5)

    @jax.jit
    def call(key, variables):
        apply = dict(train=True, mutable=["batch_stats", "state"], rngs={"dropout": key})
        return model.apply(variables, IMAGES, **apply)

    one, after = call(jax.random.key(1), variables)
    later = {**variables, "state": after["state"]}
    np.testing.assert_array_equal(one, call(jax.random.key(1), later)[0])
    assert np.any(one != call(jax.random.key(2), variables)[0])


def test_fields_are_the_options_with_their_types():
    config = tiny()
    assert dict(config.model.options) == {"inputs": 64, "rate": 0.25, "widths": (8, 6)}
    config.model.dtype, config.model.options.rate = "bfloat16", 0.5
    model = make_model(config.model, 10)
    assert (model.num_classes, model.rate, model.dtype) == (10, 0.5, jnp.bfloat16)
    logits = jax.eval_shape(lambda: model.init_with_output(jax.random.key(0), IMAGES, train=False))
    assert logits[0].dtype == jnp.bfloat16
    init = jax.jit(lambda key: model.init(key, IMAGES, train=False)["params"])
    kernels = [init(jax.random.key(seed))["head"]["kernel"] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert np.any(kernels[0] != kernels[2])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(nearly always taken|of what was held out)")
def test_all_stages_and_a_cut_run_end_with_the_same_bits(tmp_path, cut_after_saving):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    Experiment(tiny(microbatches=2), whole).run()
    Experiment(tiny(microbatches=2), whole).run("predict")
    for stage in ("pretrain", "estimate"):
        shutil.copytree(whole / stage, cut / stage)
    config = tiny("Net", "har", microbatches=2)
    cut_after_saving(4, Experiment(config, cut).run, "train")
    Experiment(config, cut).run("train")
    curves = [read_metrics(at / "train" / "har" / "metrics.jsonl") for at in (whole, cut)]
    assert [curve[-1]["loss"] for curve in curves] == [curves[0][-1]["loss"]] * 2
    expected, found = (read_arrays(at / "train" / "har" / "evaluation.npz") for at in (whole, cut))
    assert set(expected) == set(found)
    for key in expected:
        np.testing.assert_array_equal(expected[key], found[key])
    predicted = (whole / "predict" / "har.csv").read_text().splitlines()
    assert min(float(row["norm"]) for row in csv.DictReader(predicted)) > 0
    assert (whole / "predict" / "erm.csv").exists()


def test_a_step_is_the_same_on_several_devices():
    batch = {"inputs": IMAGES[:8], "labels": LABELS[:8]}
    model = linen_class(Net)(num_classes=10, rate=0.0)
    states = []
    for axis in (None, "data"):
        method = erm(model, optax.sgd(0.1), axis=axis)
        state = method.init(jax.random.key(0), batch)
        step = method.step
        if axis is not None:
            replicated, split = jax.P(), jax.P("data")
            step = jax.shard_map(
                step,
                mesh=data_mesh(jax.devices()[:2]),
                in_specs=(replicated, split, replicated),
                out_specs=replicated,
            )
        states.append(jax.jit(step)(state, batch, jax.random.key(1))[0])
    assert int(states[1].collections["state"]["calls"]) == 1
    means = [state.collections["batch_stats"]["stem_norm"]["mean"] for state in states]
    np.testing.assert_allclose(*means, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Streamless", r"takes no rngs by keyword: a module .* made as Streamless\(num_"),
        ("Positional", "takes no num_classes and no rngs by keyword: a module of NNX is made as"),
        ("Silent", r"cannot be called as \(inputs\), or, where it has an argument train, as"),
        ("Clashing", "no option can be called scope: call it otherwise"),
    ],
)
def test_a_class_that_is_no_network_is_refused_with_the_config(name, message):
    with pytest.raises(ConfigError, match=message) as caught:
        tiny(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Narrow", r"Narrow' fails with inputs of shape \(2, 8, 8, 1\), .*: TypeError"),
        ("Renewing", "TypeError: a call makes or changes late, which is no Variable that"),
        ("Counting", "TapError: a call of the model changes count, and not as the value of"),
        ("Spare", "selects spare, of which no call is seen"),
    ],
)
def test_a_network_that_cannot_be_trained_is_refused_before_it_is(tmp_path, name, message):
    config = tiny(name)
    with pytest.raises(ConfigError, match=message) as caught:
        Experiment(config, tmp_path).run()
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.glob("**/checkpoints"))
