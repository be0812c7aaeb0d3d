"""Gradients of first order inside of all that JAX and a network may be made of."""

import functools
import re
import traceback

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.extend import core
from jax.interpreters import mlir
from jax.sharding import PartitionSpec

import har_jax
from har_jax import methods
from har_jax.jacobian import DERIVATIVES
from tests import zoo
from tests.coupled import (
    SIZE,
    STRENGTH,
    WEIGHTS,
    by_hand,
    distance,
    regularized,
)


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


fused = core.Primitive("fused_tanh_backward")
fused.def_impl(lambda y, g: g * (1 - y**2))
fused.def_abstract_eval(lambda y, g: y)
mlir.register_lowering(fused, mlir.lower_fun(fused.impl, multiple_results=False))

KERNELS = {
    "callback": (
        lambda y, g: jax.pure_callback(lambda y, g: np.asarray(g * (1 - y**2)), y, y, g),
        "Pure callbacks do not support JVP",
    ),
    "primitive": (fused.bind, "Differentiation rule for 'fused_tanh_backward' not implemented"),
}
ORDERS = {
    "grad": jax.grad,
    "jit of grad": lambda objective: jax.jit(jax.grad(objective)),
    "grad of jit": lambda objective: jax.grad(jax.jit(objective)),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.usefixtures("wide")
def test_kernels_without_a_second_derivative(kernel, order):
    derivative_of_tanh, complaint = KERNELS[kernel]
    x, weights = np.random.default_rng(4).normal(size=(2, 4, 4))

    def backward(y, g):
        return (derivative_of_tanh(y, g),)

    opaque = jax.custom_vjp(jnp.tanh)
    opaque.defvjp(lambda x: (jnp.tanh(x),) * 2, backward)

    def gradient(activation, derivative):
        def objective(weights):
            losses = lambda z: (jnp.sum((activation(x @ weights + z) @ weights) ** 2, axis=1), None)
            r = har_jax.loss_and_perturbation_norm(losses, x * 0, derivative=derivative)
            return jnp.mean(r.loss + 0.1 * r.norm)

        return ORDERS[order](objective)(weights)

    assert distance(gradient(opaque, "first_order"), gradient(jnp.tanh, "first_order")) < 1e-12
    with pytest.raises((ValueError, NotImplementedError), match=complaint) as caught:
        gradient(opaque, "exact")
    if order == "grad of jit":  # JAX's own error, which shows where the operation comes from
        assert 'derivative="first_order"' in "".join(traceback.format_exception(caught.value))
    else:
        where = rf"the gradient of .*{__name__.split('.')[-1]}\.py:\d+\) cannot be .* once more"
        assert re.search(where + r'.*take derivative="first_order"', str(caught.value))


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
