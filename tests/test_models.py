"""Networks have the published sizes, and their taps lie before scale and bias."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import har_jax
from har_jax.models import CifarResNet, ConvNet, Norm
from har_jax.models.norm import NORMS


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


@pytest.mark.parametrize("kind", NORMS)
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


def test_remat_changes_nothing_but_how():
    rng = np.random.default_rng(0)
    images, labels = jnp.asarray(rng.normal(size=(4, 8, 8, 3))), jnp.arange(4) % 3

    def results(remat):
        model = CifarResNet(num_classes=3, depth=8, widths=(4, 4, 8), remat=remat)
        variables = model.init(jax.random.key(0), images, train=False)
        variables = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), variables)
        loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)

        def objective(params):
            r = loss_and_norm(
                lambda logits: har_jax.cross_entropy(logits, labels),
                {**variables, "params": params},
                images,
                train=True,
                mutable=["batch_stats"],
            )
            return jnp.sum(r.loss + r.norm), r

        gradients, r = jax.jit(jax.grad(objective, has_aux=True))(variables["params"])
        return variables, gradients, r

    with jax.enable_x64(True):
        chex.assert_trees_all_close(results(True), results(False), rtol=1e-6, atol=1e-8)


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
