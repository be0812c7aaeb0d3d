"""Gradients of first order are those of plain training at moved activations."""

import functools

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import har_jax
from har_jax.jacobian import DERIVATIVES, REDUCTIONS
from tests import zoo
from tests.coupled import (
    SIZE,
    STRENGTH,
    WEIGHTS,
    Network,
    by_hand,
    call,
    distance,
    flat,
    regularized,
    setting,
)


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


def test_an_unknown_derivative_is_refused():
    with pytest.raises(ValueError, match="'second' is unknown: take one of exact, first_order"):
        har_jax.loss_and_perturbation_norm(lambda z: (z, None), jnp.zeros(4), derivative="second")
