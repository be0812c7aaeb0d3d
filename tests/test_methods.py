"""Methods are the objective's gradient steps; options compose with every one."""

import functools
import math
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from jax.sharding import AxisType, NamedSharding

import har_jax
from har_jax import methods
from har_jax.losses import GeneralizedCrossEntropy, cross_entropy, generalized_cross_entropy
from har_jax.methods.shared.microbatches import accumulate
from har_jax.models import CifarResNet, Norm
from har_jax.train.mesh import AXIS, ROWS, WHOLE, data_mesh, map_over

RATE = 0.1
SHAPE = re.compile(r"f32\[([\d,]*)\]").findall


class Network(nn.Module):
    norm: str = "batch"

    @nn.compact
    def __call__(self, inputs, *, train):
        hidden = Norm(self.norm)(nn.Dense(8)(inputs), train=train)
        return nn.Dense(3)(nn.relu(hidden))


MODEL = Network()
# Of GCE, which differs from ERM by its loss only, what takes long is slow.
METHODS = ["erm", pytest.param("gce", marks=pytest.mark.slow), "uniform", "har"]


def batch(size=6, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "inputs": jnp.asarray(rng.normal(size=(size, 4)), jnp.float32),
        "labels": jnp.asarray(rng.integers(0, 3, size)),
        "strength": jnp.asarray(rng.uniform(size=size), jnp.float32),
    }


def make(name, model=MODEL, **options):
    optimizer = optax.sgd(RATE)
    if name == "erm":
        return methods.erm(model, optimizer, **options)
    if name == "gce":
        return methods.plain(model, optimizer, loss=GeneralizedCrossEntropy(), **options)
    if name == "uniform":
        return methods.uniform(model, optimizer, 0.5, **options)
    return methods.har(model, optimizer, **options)


def first_step(method, batch):
    state = jax.jit(method.init)(jax.random.key(0), batch)
    return state, *jax.jit(method.step)(state, batch, jax.random.key(1))


def test_a_step_is_a_gradient_step_on_the_objective():
    data = batch()
    state, after, metrics = first_step(make("har"), data)
    loss_and_norm = har_jax.loss_and_jacobian_norm(MODEL.apply)

    def objective(params):
        r = loss_and_norm(
            lambda logits: har_jax.cross_entropy(logits, data["labels"]),
            {"params": params, **state.collections},
            data["inputs"],
            train=True,
            mutable=["batch_stats"],
        )
        return jnp.mean(r.loss + data["strength"] * r.norm), r

    gradients, r = jax.jit(jax.grad(objective, has_aux=True))(state.params)
    expected = jax.tree.map(lambda p, g: p - RATE * g, state.params, gradients)
    chex.assert_trees_all_close(after.params, expected, rtol=1e-5, atol=1e-6)
    chex.assert_trees_all_close(after.collections, r.mutated, rtol=1e-5)
    np.testing.assert_allclose(metrics["norm"].mean(), r.norm.mean(), rtol=1e-5)
    np.testing.assert_allclose(metrics["loss"].mean(), r.loss.mean(), rtol=1e-5)
    assert metrics["accuracy"].weight == 6
    assert after.step == 1


def test_har_without_strength_is_erm_and_with_one_for_all_is_uniform():
    data = batch()
    none, same = ({**data, "strength": jnp.full(6, value)} for value in (0.0, 0.5))
    for name, other in (("erm", none), ("uniform", same)):
        _, expected, _ = first_step(make("har"), other)
        _, actual, _ = first_step(make(name), data)
        chex.assert_trees_all_close(actual.params, expected.params, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "axis"), [("har", None), pytest.param("uniform", AXIS, marks=pytest.mark.slow)]
)
def test_r_at_each_third_step_is_three_times_as_strong(name, axis):
    data = batch(8)
    mesh = data_mesh(jax.devices()[:2]) if axis else None
    make_one = lambda method, **options: make(method, Network("layer"), axis=axis, **options)
    sometimes = make_one(name, every=3)
    plain, strong = make_one("erm"), make_one("har")
    strength = jnp.full(8, 0.5) if name == "uniform" else data["strength"]
    over = lambda step: jax.jit(map_over(mesh, step, (WHOLE, ROWS, WHOLE), WHOLE) if axis else step)
    steps = {"in turn": over(sometimes.step), "erm": over(plain.step), "har": over(strong.step)}
    steps |= {index: over(step) for index, step in enumerate(sometimes.phases.steps)}
    state = jax.jit(sometimes.init)(jax.random.key(0), data)
    for number in range(5):
        key = jax.random.key(number)
        regularized = number % 3 == 0
        expected, wanted = steps["har" if regularized else "erm"](
            state, {**data, "strength": 3 * strength}, key
        )
        due = sometimes.phases.due(number)
        for step in ("in turn", due):
            after, metrics = steps[step](state, data, key)
            chex.assert_trees_all_close(after.params, expected.params, rtol=1e-5, atol=1e-7)
            assert metrics["norm"].weight == (8 if regularized else 0)
            np.testing.assert_allclose(metrics["loss"].mean(), wanted["loss"].mean(), rtol=1e-5)
        state = expected
    assert make_one(name).phases is None


@pytest.mark.parametrize("name", METHODS)
def test_deferred_weights_compose_with_every_method(name):
    data = batch()
    table = np.array([2.0, 0.0, 1.0])
    data["labels"] = jnp.array([0, 1, 1, 2, 0, 1])
    late = make(name, loss_weights=methods.deferred_weights(table, start_step=1))
    state, plain, _ = first_step(make(name), data)
    _, after, _ = first_step(late, data)
    chex.assert_trees_all_close(after.params, plain.params, rtol=1e-5, atol=1e-7)

    now = make(name, loss_weights=methods.deferred_weights(table, start_step=0))
    _, after, _ = first_step(now, data)
    weights = jnp.asarray(table)[data["labels"]]
    strength = {"uniform": jnp.full(6, 0.5), "har": data["strength"]}.get(name, jnp.zeros(6))
    loss = functools.partial(generalized_cross_entropy, q=0.7) if name == "gce" else cross_entropy
    loss_and_norm = har_jax.loss_and_jacobian_norm(MODEL.apply)

    def objective(params):
        r = loss_and_norm(
            lambda logits: weights * loss(logits, data["labels"]),
            {"params": params, **state.collections},
            data["inputs"],
            train=True,
            mutable=["batch_stats"],
        )
        return jnp.sum(r.loss + strength * r.norm) / jnp.sum(weights)

    gradients = jax.jit(jax.grad(objective))(state.params)
    expected = jax.tree.map(lambda p, g: p - RATE * g, state.params, gradients)
    chex.assert_trees_all_close(after.params, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_microbatches_make_the_same_step(name):
    data, model = batch(), Network("layer")
    weights = lambda labels, step: 1.0 + labels  # whose sums differ from part to part
    whole, parts = (
        first_step(make(name, model, loss_weights=weights, microbatches=count), data)[1:]
        for count in (1, 3)
    )
    chex.assert_trees_all_close(parts, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("microbatches", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", METHODS)
def test_devices_make_the_same_step_with_one_all_reduce(name, microbatches):
    options = dict(
        loss_weights=lambda labels, step: 1.0 + labels,  # whose sums differ from part to part
        augment=lambda key, example: example + jax.random.normal(key, example.shape),
        microbatches=microbatches,
    )
    data, model = batch(48), Network("layer")
    state, whole, whole_metrics = first_step(make(name, model, **options), data)
    mesh = data_mesh()
    method = make(name, model, axis=AXIS, **options)
    step = jax.jit(map_over(mesh, method.step, (WHOLE, ROWS, WHOLE), WHOLE))
    split, metrics = step(state, data, jax.random.key(1))
    chex.assert_trees_all_close((split, metrics), (whole, whole_metrics), rtol=1e-5, atol=1e-6)
    compiled = step.lower(state, data, jax.random.key(1)).compile().as_text()
    (reduced,) = re.findall(r"= (.*) all-reduce\(", compiled)
    sent = sum(math.prod(map(int, filter(None, shape.split(",")))) for shape in SHAPE(reduced))
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state.params))
    assert parameters < sent <= parameters + 1 + len(jax.tree.leaves(metrics))
    assert not re.search("all-gather|all-to-all|collective-permute|reduce-scatter", compiled)


def test_devices_have_batchnorm_statistics_of_their_own_and_the_running_ones_are_averaged():
    data = batch(16)
    method = make("har", axis=AXIS)
    state = jax.jit(method.init)(jax.random.key(0), data)
    step = jax.jit(map_over(data_mesh(), method.step, (WHOLE, ROWS, WHOLE), WHOLE))
    after, _ = step(state, data, jax.random.key(1))
    parts = [
        MODEL.apply(state.variables, data["inputs"][rows], train=True, mutable=["batch_stats"])[1]
        for rows in np.split(np.arange(16), 8)
    ]
    expected = jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *parts)
    chex.assert_trees_all_close(after.collections, expected, rtol=1e-5, atol=1e-6)
    mapped = jax.pmap(method.step, axis_name=AXIS, in_axes=(None, 0, None))
    split = jax.tree.map(lambda x: x.reshape(8, 2, *x.shape[1:]), data)
    by_pmap = jax.tree.map(lambda leaf: leaf[3], mapped(state, split, jax.random.key(1))[0])
    chex.assert_trees_all_close(by_pmap, after, rtol=1e-5, atol=1e-6)


def test_each_microbatch_updates_the_running_statistics():
    data = batch()
    state, after, _ = first_step(make("har", microbatches=2), data)
    expected = state.collections
    for rows in (slice(0, 6, 2), slice(1, 6, 2)):
        variables = {"params": state.params, **expected}
        _, expected = MODEL.apply(
            variables, data["inputs"][rows], train=True, mutable=["batch_stats"]
        )
    chex.assert_trees_all_close(after.collections, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"microbatches": 4}, "a batch of 6 does not fall into 4 equal microbatches"),
        ({"microbatches": -2}, "a batch of 6 does not fall into -2 equal microbatches"),
    ],
)
def test_microbatches_that_do_not_divide_the_batch_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        first_step(make("erm", **changes), batch())


@pytest.mark.parametrize("more", [{"epoch": jnp.int32(0)}, {"table": jnp.ones(3)}])
def test_what_is_no_row_of_a_microbatch_is_named(more):
    (name,) = more
    with pytest.raises(ValueError, match=rf"microbatches are of rows, .*\['{name}'\] (None|3)"):
        first_step(make("erm", microbatches=2), {**batch(), **more})


def test_sums_over_many_microbatches_are_exact_in_narrow_types():
    ones = jnp.ones((512, 1), jnp.bfloat16)
    fun = lambda carry, rows, index: (carry, rows.sum(0))
    total = accumulate(fun, (), ones, 512)[1]
    assert total.dtype == jnp.bfloat16
    assert total[0] == 512
    grows = lambda carry, rows, index: (jnp.concatenate([carry, carry]), rows.sum(0))
    with pytest.raises(ValueError, match=r"is float32\[2\] before a part and float32\[4\] after"):
        accumulate(grows, jnp.ones(2), ones, 2)


def test_synchronized_batchnorm_on_devices_is_batchnorm_on_one():
    data = batch(16)
    state, expected, metrics = first_step(make("har"), data)
    method = make("har", Network("sync_batch"), axis=AXIS)
    step = jax.jit(map_over(data_mesh(), method.step, (WHOLE, ROWS, WHOLE), WHOLE))
    after = step(state, data, jax.random.key(1))
    chex.assert_trees_all_close(after, (expected, metrics), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["erm", "gce", "uniform", "har"])
def test_options_that_do_not_exist_are_refused(name):
    with pytest.raises(TypeError, match="unknown options microbatch: there are augment, prepro"):
        make(name, microbatch=2)


def test_a_split_batch_needs_the_axis():
    method = make("erm")
    state = method.init(jax.random.key(0), batch(16))
    step = map_over(data_mesh(), method.step, (WHOLE, ROWS, WHOLE), WHOLE)
    with pytest.raises(ValueError, match=r"split over 'data', .* make it with axis='data'"):
        jax.jit(step)(state, batch(16), jax.random.key(1))


@pytest.mark.parametrize(
    ("kind", "microbatches"),
    [
        (AxisType.Explicit, 1),
        pytest.param(AxisType.Auto, 2, marks=pytest.mark.slow),
        pytest.param(AxisType.Explicit, 2, marks=pytest.mark.slow),
        pytest.param(AxisType.Auto, 1, marks=pytest.mark.slow),
    ],
)
def test_batches_that_jit_splits_stay_split(kind, microbatches):
    model = CifarResNet(3, depth=8, widths=(4, 4, 4), norm="layer")
    method = make("har", model, microbatches=microbatches)
    data = {**batch(8), "inputs": jnp.arange(8 * 75.0).reshape(8, 5, 5, 3) % 7}
    state, expected, _ = first_step(method, data)
    mesh = jax.make_mesh((4,), (AXIS,), axis_types=(kind,))
    with jax.set_mesh(mesh):
        place = lambda tree, spec: jax.device_put(tree, NamedSharding(mesh, spec))
        placed = place(state, WHOLE), place(data, ROWS), place(jax.random.key(1), WHOLE)
        compiled = jax.jit(method.step).lower(*placed).compile()
        after, _ = compiled(*placed)
    after = jax.device_get(after)
    chex.assert_trees_all_close(after.params, expected.params, rtol=1e-4, atol=1e-5)
    assert "all-gather" not in compiled.as_text()


def test_class_balanced_weights_by_hand():
    beta = 0.5  # effective numbers 1, 1.75 and, of many, 2
    weights = methods.class_balanced_weights([1, 3, 1000], beta)
    raw = np.array([1, 1 / 1.75, 1 / 2])
    np.testing.assert_allclose(weights, raw / raw.mean(), rtol=1e-9)
    assert methods.class_balanced_weights([5, 0, 5])[1] == 0
    np.testing.assert_allclose(methods.class_balanced_weights([5, 0, 5])[[0, 2]], 1)
    np.testing.assert_allclose(methods.class_balanced_weights([1, 99], beta=0), 1)
    with pytest.raises(ValueError, match="beta=1"):
        methods.class_balanced_weights([1, 2], beta=1)
    with pytest.raises(ValueError, match="not be negative, and not all 0"):
        methods.class_balanced_weights([0, 0])


def test_augmentation_sees_a_new_key_each_step_and_prediction_sees_none():
    keys = []

    def augment(key, example):
        keys.append(key)
        assert example.shape == (4,)
        return example + jax.random.normal(key, example.shape)

    method = make("erm", augment=augment)
    data = batch()
    state, one, _ = first_step(method, data)
    two, _ = jax.jit(method.step)(state, data, jax.random.key(2))
    assert keys
    assert any(
        np.any(np.asarray(a) != np.asarray(b))
        for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(two.params), strict=True)
    )
    logits = method.predict(state.variables, data["inputs"])
    np.testing.assert_allclose(
        logits, MODEL.apply(state.variables, data["inputs"], train=False), rtol=1e-5
    )


@pytest.mark.parametrize("name", METHODS)
def test_preprocessing_comes_after_augmentation_and_in_prediction(name):
    halve = lambda inputs: inputs.astype(jnp.float32) / 2
    shift = lambda key, inputs: inputs + 1
    data = batch()
    whole = {**data, "inputs": jnp.arange(24, dtype=jnp.uint8).reshape(6, 4)}
    halved = {**data, "inputs": (jnp.arange(24.0).reshape(6, 4) + 1) / 2}
    state, after, _ = first_step(make(name, augment=shift, preprocess=halve), whole)
    _, expected, _ = first_step(make(name), halved)
    chex.assert_trees_all_close(after.params, expected.params, rtol=1e-6)
    predict = make(name, augment=shift, preprocess=halve).predict
    np.testing.assert_allclose(
        predict(state.variables, whole["inputs"]),
        make(name).predict(state.variables, whole["inputs"] / jnp.float32(2)),
        rtol=1e-6,
    )


@pytest.mark.slow
def test_methods_vmap_over_seeds():
    method, data = make("har"), batch()
    keys = jax.random.split(jax.random.key(0), 2)

    def run(key):
        state = method.init(key, data)
        return method.step(state, data, key)[0].params

    both = jax.jit(jax.vmap(run))(keys)
    for index in range(2):
        chex.assert_trees_all_close(
            jax.tree.map(lambda leaf, index=index: leaf[index], both),
            jax.jit(run)(keys[index]),
            rtol=1e-4,
            atol=1e-6,
        )
