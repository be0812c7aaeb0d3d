"""Networks have the published sizes, and their taps lie before scale and bias."""

import collections
import json
import pathlib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import har_jax
from har_jax.models import CifarResNet, ConvNet, ImageNetResNet, InceptionResNetV2, Norm
from har_jax.models.layers.norm import NORMS


def count(model, shape):
    init = lambda: model.init(jax.random.key(0), jnp.zeros(shape), train=False)["params"]
    return sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(jax.eval_shape(init)))


@pytest.mark.parametrize(
    ("depth", "size"), [(20, 269_722), (32, 464_154), (56, 853_018), (110, 1_727_962)]
)
def test_resnets_have_the_published_sizes(depth, size):
    assert count(CifarResNet(num_classes=10, depth=depth), (1, 32, 32, 3)) == size


def test_resnet_depths_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="depth=30 is not 6n"):
        count(CifarResNet(num_classes=10, depth=30), (1, 32, 32, 3))


@pytest.mark.parametrize("kind", sorted({*NORMS} - {"sync_batch"}))  # which needs an axis
def test_taps_lie_before_scale_and_bias(kind):
    model = Norm(kind)
    x = np.random.default_rng(0).normal(2.0, 3.0, size=(4, 5, 5, 8)).astype(np.float32)
    variables = model.init(jax.random.key(0), x, train=True)
    scale, bias = jnp.arange(1.0, 9), jnp.arange(8.0)
    variables = {**variables, "params": {"scale": scale, "bias": bias}}
    y, captured = model.apply(
        variables,
        x,
        train=True,
        mutable=["batch_stats", "intermediates"],
        capture_intermediates=har_jax.normalization_layers,
    )
    (tapped,) = jax.tree.leaves(captured["intermediates"])
    np.testing.assert_allclose(y, tapped * scale + bias, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.mean(tapped), 0, atol=1e-5)
    np.testing.assert_allclose(np.std(tapped), 1, rtol=1e-3)


@pytest.mark.slow
def test_remat_changes_nothing_but_how():
    model = CifarResNet(num_classes=3, depth=8, widths=(4, 4, 8))
    rng = np.random.default_rng(0)
    images, labels = jnp.asarray(rng.normal(size=(4, 8, 8, 3))), jnp.arange(4) % 3
    with jax.enable_x64(True):
        variables = jax.jit(lambda: model.init(jax.random.key(0), images, train=False))()
        variables = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), variables)
        plain, remat = (
            value_and_gradients(each, variables, images, labels)(variables["params"])
            for each in (model, model.clone(remat=True))
        )
        chex.assert_trees_all_close(plain, remat, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model", "size", "taps"),
    [
        ("resnet50", ImageNetResNet(1000), 224, 53),
        ("inception_resnet_v2", InceptionResNetV2(1000), 299, 204),
    ],
)
def test_large_networks_have_the_shapes_of_timm(name, model, size, taps):
    expected = json.loads((pathlib.Path(__file__).parent / "data/timm_shapes.json").read_text())
    images = jax.ShapeDtypeStruct((2, size, size, 3), jnp.bfloat16)
    model = model.clone(dtype=jnp.bfloat16)
    variables = jax.eval_shape(lambda x: model.init(jax.random.key(0), x, train=False), images)
    leaves = jax.tree.leaves(variables["params"])
    torch = lambda shape: (*shape[:1:-1], *shape[:2]) if len(shape) == 4 else shape[::-1]
    shapes = collections.Counter("x".join(map(str, torch(leaf.shape))) for leaf in leaves)
    assert shapes == expected[name]
    assert sum(leaf.size for leaf in leaves) == {53: 25_557_032, 204: 55_843_464}[taps]
    assert {leaf.dtype.name for leaf in jax.tree.leaves(variables)} == {"float32"}

    def tapped(variables, images):
        options = dict(mutable=["batch_stats", "intermediates"], train=True)
        layers = har_jax.normalization_layers
        return model.apply(variables, images, capture_intermediates=layers, **options)

    logits, captured = jax.eval_shape(tapped, variables, images)
    assert logits.shape == (2, 1000)
    activations = jax.tree.leaves(captured["intermediates"])
    assert len(activations) == taps
    assert {leaf.dtype.name for leaf in activations} == {"bfloat16"}


def value_and_gradients(model, variables, images, labels):
    """Compiled: of the parameters, in float64, the objective and R, and its gradients."""

    def objective(params):
        r = har_jax.loss_and_jacobian_norm(model.apply)(
            lambda logits: har_jax.cross_entropy(logits, labels),
            {**variables, "params": params},
            images,
            train=True,
            mutable=["batch_stats"],
        )
        return jnp.sum(r.loss + r.norm), r.norm

    return jax.jit(jax.value_and_grad(objective, has_aux=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "size"),
    [
        (ImageNetResNet(3, depth=14, width=2, remat=True), 33),
        (InceptionResNetV2(3, (1, 1, 0), norm="group"), 75),
    ],
)
def test_large_networks_have_the_gradients_of_finite_differences(model, size):
    rng = np.random.default_rng(0)
    images, labels = jnp.asarray(rng.normal(size=(2, size, size, 3))), jnp.arange(2)
    with jax.enable_x64(True):
        variables = jax.jit(lambda: model.init(jax.random.key(0), images, train=False))()
        variables = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), variables)
        compute = value_and_gradients(model, variables, images, labels)
        (_, norm), gradients = compute(variables["params"])
        assert np.all(np.asarray(norm) > 0)
        # Along one direction, in steps so small that no ReLU changes its side.
        direction = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), variables["params"])
        move = lambda by: jax.tree.map(lambda p, d: p + by * d, variables["params"], direction)
        difference = (compute(move(1e-8))[0][0] - compute(move(-1e-8))[0][0]) / 2e-8
        slopes = jax.tree.map(lambda g, d: jnp.sum(g * d), gradients, direction)
        np.testing.assert_allclose(sum(jax.tree.leaves(slopes)), difference, rtol=1e-4)


def test_the_filter_without_the_stem_leaves_out_one_norm():
    model = CifarResNet(num_classes=3, depth=8)
    images = jnp.zeros((2, 8, 8, 3))

    def taps(layers):
        init = lambda: model.init(jax.random.key(0), images, train=False)
        options = dict(mutable=["intermediates"], capture_intermediates=layers)
        run = lambda: model.apply(init(), images, train=False, **options)[1]
        return jax.tree.leaves(jax.eval_shape(run))

    assert len(taps(har_jax.normalization_layers)) == 7
    assert len(taps(har_jax.normalization_layers_but_stem)) == 6


def test_convnet_halves_the_image_at_each_later_stage():
    model = ConvNet(num_classes=5, widths=(8, 16, 16), norm="group")
    assert count(model, (1, 8, 8, 1)) == (
        9 * (1 * 8 + 8 * 8 + 8 * 16 + 16 * 16 * 3) + 2 * 2 * (8 + 16 + 16) + 16 * 5 + 5
    )
    images = jnp.zeros((2, 9, 7, 1))
    run = lambda: model.init_with_output(jax.random.key(0), images, train=False)
    logits, _ = jax.eval_shape(run)
    assert logits.shape == (2, 5)
