"""Gradients of first order are those of plain training at moved activations."""

import functools

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

import har_jax
from har_jax import methods
from har_jax.jacobian import DERIVATIVES, REDUCTIONS
from tests import zoo

SIZE = 8
STRENGTH = np.linspace(0.2, 1.0, SIZE)
WEIGHTS = np.array([0.0, 1.0, 2.0, 0.5, 3.0, 1.0, 0.0, 2.0])


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        yield


class Network(nn.Module):
    """Two norms that make the examples of a batch depend on each other."""

    activation: object = nn.gelu
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x, train=True):
        for _ in range(2):
            x = nn.BatchNorm(not train, epsilon=0.1)(nn.Dense(6)(x))
            x = nn.Dropout(self.dropout, deterministic=not train)(self.activation(x))
        return nn.Dense(3)(x)


@functools.cache
def setting(seed=0, model=None, shape=(SIZE, 4)):
    """A model's variables and a batch, in float64; a failing test shows the seed."""
    model = model or Network()
    x, y = zoo.inputs(shape, seed), zoo.labels(shape[0], seed)
    rngs = {"params": jax.random.key(seed), "dropout": jax.random.key(seed)}
    variables = jax.jit(model.init)(rngs, x)
    rng = np.random.default_rng(seed)
    noisy = lambda leaf: np.asarray(leaf, np.float64) + 0.1 * rng.uniform(size=leaf.shape)
    return jax.tree.map(noisy, variables), np.asarray(x, np.float64), y


def call(derivative, variables, x, y, weights=1.0, model=None, **options):
    loss_and_norm = har_jax.loss_and_jacobian_norm(
        (model or Network()).apply, derivative=derivative, **options
    )
    return loss_and_norm(
        lambda z: weights * zoo.cross_entropy(z, y),
        variables,
        x,
        mutable=["batch_stats"],
        rngs={"dropout": jax.random.key(7)},
    )


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def distance(tree, reference):
    one, other = flat(tree), flat(reference)
    return np.linalg.norm(one - other) / np.linalg.norm(other)


def by_hand(seed, rows=SIZE):
    """Two layers that are coupled by their batch's mean; the loss depends on the parameters too."""
    rng = np.random.default_rng(seed)
    params = {name: jnp.asarray(rng.normal(size=(4, 4))) for name in ("one", "two")}
    batch = jnp.asarray(rng.normal(size=(rows, 4))), jnp.asarray(rng.integers(0, 4, rows))

    def losses(params, batch, perturbations, axis=None):
        x, labels = batch
        h = jnp.tanh(x @ params["one"] + perturbations["one"])
        mean = h.mean(axis=0)
        if axis is not None:
            mean = jax.lax.pmean(mean, axis)
        h = jnp.sin((h - mean) @ params["two"] + perturbations["two"])
        picked = jnp.take_along_axis(jax.nn.log_softmax(h), labels[:, None], axis=1)[:, 0]
        return 0.1 * jnp.sum(params["one"] ** 2) - picked

    zeros = {name: jnp.zeros((SIZE, 4)) for name in params}
    return params, batch, zeros, losses


def regularized(losses, derivative, params, batch, zeros, strength, axis=None, **options):
    """``[B]``, loss and penalty."""
    r = har_jax.loss_and_perturbation_norm(
        lambda z: (losses(params, batch, z, axis), None), zeros, derivative=derivative, **options
    )
    return r.loss + strength * r.norm


@pytest.mark.parametrize(("reduction", "seed"), list(zip(REDUCTIONS, (0, 1), strict=True)))
@pytest.mark.usefixtures("wide")
def test_equals_the_gradient_at_activations_moved_by_hand(reduction, seed):
    params, batch, zeros, losses = by_hand(seed)
    gradients = jax.grad(lambda z: jnp.sum(losses(params, batch, z)))(zeros)
    if reduction == "sum_of_norms":
        norms = {name: jnp.linalg.norm(g, axis=1) for name, g in gradients.items()}
    else:
        squares = sum(jnp.sum(g**2, axis=1) for g in gradients.values())
        norms = dict.fromkeys(gradients, jnp.sqrt(squares))
    delta = {name: (STRENGTH / norms[name])[:, None] * g for name, g in gradients.items()}
    expected = jax.grad(lambda p: jnp.mean(losses(p, batch, delta)))(params)
    value = lambda p: regularized(
        losses, "first_order", p, batch, zeros, STRENGTH, reduction=reduction
    )
    gradient = jax.grad(lambda p: jnp.mean(value(p)))
    assert distance(jax.jit(gradient)(params), expected) < 1e-10
    assert distance(gradient(params), expected) < 1e-10
    # With weights outside of the loss: the moved pass has the largest, the other what is left.
    most = np.max(WEIGHTS)
    delta = {name: (WEIGHTS / most)[:, None] * each for name, each in delta.items()}
    left = lambda p: most * losses(p, batch, delta) + (WEIGHTS - most) * losses(p, batch, zeros)
    expected = jax.grad(lambda p: jnp.sum(left(p)))(params)
    weighted = jax.jit(jax.grad(lambda p: jnp.sum(WEIGHTS * value(p))))
    assert distance(weighted(params), expected) < 1e-10


@pytest.mark.parametrize("weighted", ["no", "inside", "outside"])
@pytest.mark.usefixtures("wide")
def test_is_off_the_exact_derivative_by_as_much_as_it_moves(weighted):
    model = Network(dropout=0.2)
    variables, x, y = setting(model=model, shape=(4 * SIZE, 4))
    ones, weights, strengths = (np.tile(each, 4) for each in (np.ones(SIZE), WEIGHTS, STRENGTH))
    inside = weights if weighted == "inside" else ones
    outside = weights if weighted == "outside" else ones

    @functools.partial(jax.jit, static_argnums=0)
    def gradient(derivative, with_loss, strength):
        def objective(params):
            r = call(derivative, {**variables, "params": params}, x, y, inside, model)
            return jnp.sum(outside * (with_loss * r.loss + strength * strengths * r.norm)) / len(x)

        return jax.grad(objective)(variables["params"])

    plain = gradient("exact", 1.0, 0.0)
    penalty = flat(gradient("exact", 0.0, 1.0))
    errors = []
    for s in (0.01, 0.005, 0.0025):
        moved = (flat(gradient("first_order", 1.0, s)) - flat(plain)) / s
        errors.append(np.linalg.norm(moved - penalty) / np.linalg.norm(penalty))
    assert errors[0] < (5e-3 if weighted == "no" else 2e-2)
    np.testing.assert_allclose(np.divide(errors[1:], errors[:-1]), 0.5, rtol=0.02)


@pytest.mark.usefixtures("wide")
def test_values_are_exact_and_statistics_are_updated_once():
    variables, x, y = setting()

    def objective(params, derivative):
        r = call(derivative, {**variables, "params": params}, x, y)
        return jnp.mean(r.loss + r.norm), r

    exact, first = (
        jax.jit(lambda p, d=d: objective(p, d)[1])(variables["params"]) for d in DERIVATIVES
    )
    chex.assert_trees_all_close(first, exact, rtol=1e-12, atol=1e-14)
    with_gradient = jax.jit(jax.grad(objective, has_aux=True), static_argnums=1)
    _, first = with_gradient(variables["params"], "first_order")
    chex.assert_trees_all_close(first, exact, rtol=1e-12, atol=1e-14)


def over_seeds(value, params, batch):
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), params)
    found = jax.vmap(jax.grad(value), (0, None))(stacked, batch)
    return jax.tree.map(lambda leaf: leaf[1], found)


def through_seeds(value, params, batch):
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), params)
    found = jax.grad(lambda p: jnp.sum(jax.vmap(value, (0, None))(p, batch)))(stacked)
    return jax.tree.map(lambda leaf: leaf[0], found)


def through_scan(value, params, batch):
    def scanned(params):
        step = lambda carry, _: (carry + value(params, batch), None)
        return jax.lax.scan(step, 0.0, None, length=2)[0] / 2

    return jax.grad(scanned)(params)


TRANSFORMATIONS = {
    "grad of jit": lambda value, params, batch: jax.grad(jax.jit(value))(params, batch),
    "checkpoint": lambda value, params, batch: jax.grad(jax.checkpoint(value))(params, batch),
    "vmap": over_seeds,
    "grad of vmap": through_seeds,
    "scan": through_scan,
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.usefixtures("wide")
def test_under_transformations_and_in_one_pass_where_losses_count_alike(name):
    params, batch, zeros, losses = by_hand(2)

    def gradient(derivative, weights, params, batch):
        def value(params, batch):
            strength = 1e-4 * STRENGTH
            each = regularized(losses, derivative, params, batch, zeros, strength)
            return jnp.sum(weights * each)

        return TRANSFORMATIONS[name](value, params, batch)

    products = []
    for weights in (0.25, WEIGHTS):
        exact, first = (jax.jit(functools.partial(gradient, d, weights)) for d in DERIVATIVES)
        assert 0 < distance(first(params, batch), exact(params, batch)) < 1e-3
        products.append(str(jax.make_jaxpr(first)(params, batch)).count("dot_general"))
    # Forward and back to the first norm: 2 + 1. Forward and back: 2 + 3, once or twice.
    assert products[0] == (3 + 5 if name != "checkpoint" else 3 + 3 + 5)
    assert products[1] == products[0] + 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "axis"),
    [
        ("pmap", "data"),
        ("shard_map", None),
        ("shard_map", "data"),
        ("shard_map, unchecked", "data"),
    ],
)
@pytest.mark.usefixtures("wide")
def test_over_devices_also_where_their_examples_depend_on_each_other(kind, axis):
    """Losses count in proportion to the device's place: alike on it, and not beyond it."""
    params, batch, zeros, losses = by_hand(3, 2 * SIZE)
    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, whole = PartitionSpec("data"), PartitionSpec()

    def gradient(derivative, uneven, params, batch):
        def value(params):
            place = jax.lax.axis_index("data")
            strength = 1e-4 * (1 + place) * STRENGTH
            varying = jax.tree.map(lambda _: jnp.zeros_like(batch[0]), zeros)
            each = regularized(losses, derivative, params, batch, varying, strength, axis)
            return jnp.sum((1.0 + uneven * place) * each)

        if kind == "shard_map":  # which adds up what parameters are used for on all devices
            return jax.grad(lambda p: jax.lax.psum(value(p), "data"))(params)
        return jax.lax.psum(jax.grad(value)(params), "data")

    for uneven in (0, 1):
        found = []
        for derivative in DERIVATIVES:
            fun = functools.partial(gradient, derivative, uneven)
            if kind == "pmap":
                split = jax.tree.map(lambda leaf: leaf.reshape(2, SIZE, *leaf.shape[1:]), batch)
                mapped = jax.pmap(fun, "data", in_axes=(None, 0), devices=jax.devices()[:2])
                found.append(jax.tree.map(lambda leaf: leaf[0], mapped(params, split)))
            else:
                checked = kind == "shard_map"
                mapped = jax.shard_map(
                    fun, mesh=mesh, in_specs=(whole, rows), out_specs=whole, check_vma=checked
                )
                found.append(jax.jit(mapped)(params, batch))
        assert 0 < distance(found[1], found[0]) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "of",
    [
        lambda r: jnp.sum(STRENGTH * r.norm),
        lambda r: jnp.mean(r.loss) + 1e-4 * jnp.sum(r.layer_norms["BatchNorm_1"]),
        lambda r: sum(jnp.sum(norm) for norm in r.layer_norms.values()),
        lambda r: jnp.sum(r.outputs**3) + jnp.sum(r.mutated["batch_stats"]["BatchNorm_1"]["var"]),
        lambda r: jnp.mean(jnp.minimum(r.loss, 1.2)) + jnp.mean(r.outputs[:, 0] * r.norm) * 1e-4,
        lambda r: 0 * jnp.mean(r.loss + r.norm),
    ],
    ids=["norm", "one layer's", "all layers'", "outputs", "all", "nothing"],
)  # fmt: skip
@pytest.mark.usefixtures("wide")
def test_whatever_is_differentiated_has_its_gradient(of):
    variables, x, y = setting()
    exact, first = (
        jax.jit(jax.grad(lambda p, d=d: of(call(d, {**variables, "params": p}, x, y))))(
            variables["params"]
        )
        for d in DERIVATIVES
    )
    np.testing.assert_allclose(
        flat(first), flat(exact), rtol=1e-3, atol=1e-4 * np.max(np.abs(flat(exact)))
    )


def test_rows_without_gradient_and_losses_that_do_not_count():
    model = nn.Sequential([nn.LayerNorm(), nn.Dense(3)])
    x, y = zoo.inputs((SIZE, 3)), zoo.labels(SIZE)
    variables = zoo.variables(model, x)
    alive = jnp.array([1.0, 0.0] * (SIZE // 2))

    @functools.partial(jax.jit, static_argnums=0)
    def gradient(reduction, count, strength):
        def objective(params):
            r = har_jax.loss_and_jacobian_norm(
                model.apply, reduction=reduction, derivative="first_order"
            )(lambda z: alive * zoo.cross_entropy(z, y), {"params": params}, x)
            return jnp.sum(count * r.loss + strength * r.norm)

        return jax.grad(objective)(variables["params"])

    for reduction in REDUCTIONS:
        assert np.all(np.isfinite(flat(gradient(reduction, 1.0, 1.0))))
        assert not np.any(flat(gradient(reduction, 0.0, 0.0)))
        assert np.all(np.isnan(flat(gradient(reduction, 0.0, 1.0)["layers_1"])))  # and not 0


@pytest.mark.slow
@pytest.mark.usefixtures("wide")
def test_taps_in_a_loop_that_is_rematerialized():
    model = zoo.Network("layer", lift="scan_remat")
    x, y = zoo.inputs((5, 3)).astype(np.float64), zoo.labels(5)
    variables = jax.tree.map(lambda leaf: leaf.astype(np.float64), zoo.variables(model, x))

    @functools.partial(jax.jit, static_argnums=0)
    def gradient(derivative):
        loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply, derivative=derivative)

        def objective(variables):
            r = loss_and_norm(lambda z: zoo.cross_entropy(z, y), variables, x)
            return jnp.mean(r.loss + 1e-4 * r.norm)

        return jax.grad(objective)(variables)

    exact, first = map(gradient, DERIVATIVES)
    assert 0 < distance(first, exact) < 1e-5


def opaque():
    """tanh, whose backward pass JAX cannot see into."""
    backward = lambda y, g: (g * (1 - y**2)).astype(y.dtype)
    activation = jax.custom_vjp(jnp.tanh)
    activation.defvjp(
        lambda x: (jnp.tanh(x),) * 2,
        lambda y, g: (jax.pure_callback(backward, jax.typeof(y), y, g),),
    )
    return activation


@pytest.mark.usefixtures("wide")
def test_kernels_without_a_second_derivative():
    variables, x, y = setting()

    def gradient(activation, derivative):
        def objective(params):
            r = call(derivative, {**variables, "params": params}, x, y, model=Network(activation))
            return jnp.mean(r.loss + 0.1 * r.norm)

        return jax.jit(jax.grad(objective))(variables["params"])

    first = gradient(opaque(), "first_order")
    assert distance(first, gradient(jnp.tanh, "first_order")) < 1e-12
    with pytest.raises(
        ValueError, match=r'once more \(Pure callbacks.*\): take derivative="first_ord'
    ):
        gradient(opaque(), "exact")


def test_rules_that_close_over_values_are_refused():
    class Scaled(nn.Module):
        @nn.compact
        def __call__(self, x):
            factor = self.param("factor", nn.initializers.ones, ())
            identity = jax.custom_jvp(lambda h: h)
            identity.defjvp(lambda primals, tangents: (primals[0], factor * tangents[0]))
            return nn.Dense(3)(identity(nn.LayerNorm()(x)))

    x, y = zoo.inputs((5, 3)), zoo.labels(5)
    variables = zoo.variables(Scaled(), x)
    loss_and_norm = har_jax.loss_and_jacobian_norm(Scaled().apply, derivative="first_order")
    with pytest.raises(ValueError, match=r"closes over computed values.*as arguments"):
        jax.jit(lambda v: loss_and_norm(lambda z: zoo.cross_entropy(z, y), v, x))(variables)


@pytest.mark.slow
def test_bfloat16_and_complex_activations():
    class Complex(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.LayerNorm(dtype=jnp.complex64)(x * (1 + 0.3j) + 0.2j * x[:, ::-1])
            return nn.Dense(3)(jnp.abs(h))

    half = nn.Sequential(
        [nn.Dense(4, dtype=jnp.bfloat16), nn.LayerNorm(dtype=jnp.bfloat16), nn.gelu, nn.Dense(3)]
    )
    for model, strength, close in ((Complex(), 1e-2, 2e-2), (half, 0.5, 0.2)):
        x, y = zoo.inputs((5, 3)), zoo.labels(5)
        variables = zoo.variables(model, x)

        def gradient(derivative, strength, model=model, variables=variables, x=x, y=y):
            def objective(variables):
                r = har_jax.loss_and_jacobian_norm(model.apply, derivative=derivative)(
                    lambda z: zoo.cross_entropy(z.astype(jnp.float32), y), variables, x
                )
                return jnp.mean(r.loss + strength * r.norm)

            return flat(jax.jit(jax.grad(objective))(variables))

        plain = gradient("exact", 0.0)
        exact, first = (gradient(derivative, strength) - plain for derivative in DERIVATIVES)
        assert np.linalg.norm(first - exact) < close * np.linalg.norm(exact)


@pytest.mark.slow
def test_training_in_microbatches_and_with_a_bounded_norm():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, *, train):
            return nn.Dense(3)(nn.gelu(nn.LayerNorm()(nn.Dense(6)(x))))

    rng = np.random.default_rng(0)
    batch = {
        "inputs": jnp.asarray(zoo.inputs((SIZE, 4))),
        "labels": jnp.asarray(zoo.labels(SIZE)),
        "strength": jnp.asarray(rng.uniform(size=SIZE), jnp.float32),
    }
    after = []
    for options in ({}, {"max_norm": 0.5}, {"microbatches": 2}):
        made = methods.har(Net(), optax.sgd(0.1), derivative="first_order", **options)
        state = jax.jit(made.init)(jax.random.key(0), batch)
        step = jax.jit(made.step)
        losses = []
        for _ in range(5):
            state, metrics = step(state, batch, jax.random.key(1))
            losses.append(float(metrics["loss"].mean()))
        assert losses[-1] < losses[0]
        after.append(state.params)
    chex.assert_trees_all_close(after[0], after[2], rtol=1e-4, atol=1e-6)
    assert distance(after[0], after[1]) > 1e-4


def test_an_unknown_derivative_is_refused():
    with pytest.raises(ValueError, match="'second' is unknown: take one of exact, first_order"):
        har_jax.loss_and_perturbation_norm(lambda z: (z, None), jnp.zeros(4), derivative="second")
