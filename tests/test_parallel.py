"""R and the objective's gradient compose with JAX's maps, and equal the one-device values."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax.sharding import AxisType, PartitionSpec

import har_jax
from har_jax.models.layers.convolution import conv3x3
from tests import zoo

DEVICES, BATCH = 8, 16


class Convolutions(nn.Module):
    """With the convolutions of our own models, whose derivatives are written by hand."""

    @nn.compact
    def __call__(self, x):
        for strides in (1, 2):
            x = nn.tanh(nn.LayerNorm()(conv3x3(4, strides=strides)(x)))
        return nn.Dense(3)(x.mean(axis=(1, 2)))


@pytest.fixture(scope="module", params=["layer", "frozen_batch", "convolutions"])
def problem(request):
    convolutions = request.param == "convolutions"
    model = Convolutions() if convolutions else zoo.Network(request.param)
    x = zoo.inputs((BATCH, 6, 6, 3) if convolutions else (BATCH, 3))
    return model, zoo.variables(model, x), x, zoo.labels(BATCH)


def shard_sums(model, variables, x, y):
    """Of these rows: the sum of the objective, its gradient, and R of each."""
    rest = {name: value for name, value in variables.items() if name != "params"}
    loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)

    def objective(params):
        r = loss_and_norm(lambda z: zoo.cross_entropy(z, y), {"params": params, **rest}, x)
        strength = jnp.full_like(r.loss, 0.7)
        return har_jax.regularized_sum(r.loss, r.norm, strength).total, r.norm

    return jax.grad(objective, has_aux=True)(variables["params"])


def one_device(model, variables, x, y):
    return jax.jit(functools.partial(shard_sums, model))(variables, x, y)


def assert_close(actual, expected):
    chex.assert_trees_all_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_shard_map(problem):
    model, variables, x, y = problem
    mesh = jax.make_mesh((DEVICES,), ("data",), axis_types=(AxisType.Auto,))
    rows, whole = PartitionSpec("data"), PartitionSpec()
    # With check_vma, its default, the gradient of what is not mapped is summed over devices.
    mapped = jax.jit(
        jax.shard_map(
            functools.partial(shard_sums, model),
            mesh=mesh,
            in_specs=(whole, rows, rows),
            out_specs=(whole, rows),
        )
    )
    assert_close(mapped(variables, x, y), one_device(model, variables, x, y))


def test_pmap(problem):
    model, variables, x, y = problem

    def step(x, y):
        gradients, norm = shard_sums(model, variables, x, y)
        return jax.lax.psum(gradients, "data"), norm

    split = lambda array: array.reshape(DEVICES, -1, *array.shape[1:])
    gradients, norm = jax.pmap(step, axis_name="data")(split(x), split(y))
    first = jax.tree.map(lambda leaf: np.asarray(leaf)[0], gradients)
    assert_close((first, np.asarray(norm).reshape(-1)), one_device(model, variables, x, y))


@pytest.mark.slow
def test_vmap_over_seeds(problem):
    model, _, x, y = problem
    seeds = [zoo.variables(model, x, seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *seeds)
    mapped = jax.jit(jax.vmap(functools.partial(shard_sums, model), in_axes=(0, None, None)))
    expected = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(one_device(model, v, x, y) for v in seeds)
    )
    assert_close(mapped(stacked, x, y), expected)


def test_scan_over_microbatches(problem):
    model, variables, x, y = problem

    def body(total, rows):
        gradients, norm = shard_sums(model, variables, *rows)
        return jax.tree.map(jnp.add, total, gradients), norm

    split = lambda array: array.reshape(4, -1, *array.shape[1:])
    zeros = jax.tree.map(jnp.zeros_like, variables["params"])
    gradients, norm = jax.jit(lambda: jax.lax.scan(body, zeros, (split(x), split(y))))()
    assert_close((gradients, norm.reshape(-1)), one_device(model, variables, x, y))


def test_remat_of_the_whole_step(problem):
    model, variables, x, y = problem
    step = jax.jit(jax.checkpoint(functools.partial(shard_sums, model)))
    assert_close(step(variables, x, y), one_device(model, variables, x, y))
