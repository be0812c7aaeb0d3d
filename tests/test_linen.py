"""R of Flax Linen models: equal to brute force, invariant, and refused where it is not defined."""

import functools

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from flax.errors import ScopeCollectionNotFound
from jax.test_util import check_grads

import har_jax
from har_jax.jacobian import REDUCTIONS
from tests import zoo

IMAGES, SEQUENCES, VECTORS = (5, 4, 4, 3), (5, 6, 3), (5, 3)

close = functools.partial(np.testing.assert_allclose, rtol=1e-5)


def run(model, variables, x, y, **options):
    loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply, **options)
    return jax.jit(lambda v, x, y: loss_and_norm(lambda z: zoo.cross_entropy(z, y), v, x))(
        variables, x, y
    )


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (zoo.Network("layer"), VECTORS),
        pytest.param(zoo.Network("layer", lift="scan"), SEQUENCES, marks=pytest.mark.slow),
        (zoo.Network("layer", convolution=True), IMAGES),
        pytest.param(
            zoo.Network("group", convolution=True, lift="remat"), IMAGES, marks=pytest.mark.slow
        ),
        (zoo.Network("group", convolution=True, lift="scan_remat"), IMAGES),
        pytest.param(zoo.Network("frozen_batch", convolution=True), IMAGES, marks=pytest.mark.slow),
        (zoo.Network("frozen_batch", lift="scan"), VECTORS),
        (zoo.Shared(), (5, 4)),
    ],
    ids=lambda value: " ".join(str(value).split()),
)
def test_equals_brute_force(model, shape):
    x, y = zoo.inputs(shape), zoo.labels(shape[0])
    variables = zoo.variables(model, x)
    expected = zoo.brute_force(model, variables, x, y)
    for reduction, norm in zip(REDUCTIONS, expected, strict=True):
        r = run(model, variables, x, y, reduction=reduction)
        close(r.norm, norm)
    close(r.loss, zoo.cross_entropy(model.apply(variables, x), y))
    close(r.outputs, model.apply(variables, x), atol=1e-6)
    assert r.mutated == {}
    assert r.norm.shape == (5,)
    total = sum(norms.reshape(-1, 5).sum(axis=0) for norms in r.layer_norms.values())
    close(total, expected[1])


def test_a_module_rematerialized_three_times():
    x, y = zoo.inputs((5, 4)), zoo.labels(5)
    variables = zoo.variables(zoo.Shared(), x)
    plain, remat = (run(zoo.Shared(remat), variables, x, y) for remat in (False, True))
    close(plain.norm, remat.norm)
    assert list(remat.layer_norms) == ["norm[0]", "norm[1]", "norm[2]"]


def test_layers_stacked_on_another_axis_count_one_by_one():
    class Stack(nn.Module):
        axis: int

        @nn.compact
        def __call__(self, x):
            axes = {"params": 0, "intermediates": self.axis}
            block = nn.scan(
                zoo.Block, variable_axes=axes, split_rngs={"params": True}, length=x.shape[-1]
            )
            return block("layer")(x, None)[0][:, 0]

    x, y = zoo.inputs((5, 3, 3)), zoo.labels(5)
    variables = zoo.variables(Stack(0), x)
    norms = [
        run(Stack(axis), variables, x, y, reduction="sum_of_norms").norm for axis in (0, 1, 2, -1)
    ]
    for norm in norms[1:]:
        close(norm, norms[0])


def test_objective_gradients_equal_finite_differences():
    with jax.enable_x64(True):
        x, y = zoo.inputs(IMAGES).astype(np.float64), zoo.labels(5)
        model = zoo.Network("group", convolution=True)
        params = jax.tree.map(
            lambda leaf: leaf.astype(jnp.float64), zoo.variables(model, x)["params"]
        )
        strength = jnp.linspace(0.0, 2.0, 5)
        for reduction in REDUCTIONS:
            loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply, reduction=reduction)

            @jax.jit
            def objective(params, loss_and_norm=loss_and_norm):
                r = loss_and_norm(lambda z: zoo.cross_entropy(z, y), {"params": params}, x)
                return har_jax.regularized_sum(r.loss, r.norm, strength).mean()

            check_grads(objective, (params,), order=1, modes=["rev"], rtol=1e-6, atol=1e-6)


def test_batch_size_and_order_do_not_matter():
    model, x, y = zoo.Network("layer"), zoo.inputs((6, 3)), zoo.labels(6)
    variables = zoo.variables(model, x)
    whole = run(model, variables, x, y)
    order = np.random.default_rng(1).permutation(6)
    close(run(model, variables, x[order], y[order]).norm, whole.norm[order])
    close(run(model, variables, x[:1], y[:1]).norm, whole.norm[:1])
    close(run(model, variables, x[1:3], y[1:3]).norm, whole.norm[1:3])


def test_masked_rows_count_for_nothing():
    model, x, y = zoo.Network("layer"), zoo.inputs((5, 3)), zoo.labels(5)
    params = zoo.variables(model, x)["params"]
    loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)

    @jax.jit
    def objective(params, x, y, weights):
        r = loss_and_norm(lambda z: weights * zoo.cross_entropy(z, y), {"params": params}, x)
        strength = jnp.full(len(y), 0.3)
        return har_jax.regularized_sum(r.loss, r.norm, strength, weights).mean()

    padded_x, padded_y = np.concatenate([x, 100 + x[:3]]), np.concatenate([y, y[:3]])
    mask = np.array([1.0] * 5 + [0.0] * 3, np.float32)
    plain = jax.value_and_grad(objective)(params, x, y, mask[:5])
    masked = jax.value_and_grad(objective)(params, padded_x, padded_y, mask)
    chex.assert_trees_all_close(plain, masked, rtol=1e-5, atol=1e-7)


def test_weights_inside_and_outside_of_the_loss():
    """Outside they scale R too; inside, with BatchNorm, a row of weight 0 has a norm as well."""
    frozen, training = (
        nn.Sequential(
            [nn.Dense(4), nn.BatchNorm(average), nn.Dense(4), nn.BatchNorm(average), nn.Dense(3)]
        )
        for average in (True, False)
    )
    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    weights = jnp.array([0.0, 1.0, 2.0, 3.0, 4.0])
    variables = zoo.variables(frozen, x)

    def norm(model, weights):
        loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)
        loss = lambda z: weights * zoo.cross_entropy(z, y)
        return loss_and_norm(loss, variables, x, mutable=["batch_stats"]).norm

    close(norm(frozen, weights), weights * norm(frozen, 1.0))
    coupled = norm(training, weights)
    assert coupled[0] > 0.01
    r = har_jax.regularized_sum(weights * 1.0, coupled, jnp.where(weights > 0, 0.5, 0.0), weights)
    close(r.total, np.sum(weights) + 0.5 * np.sum(coupled[1:]))


def test_training_batchnorm_gives_the_gradient_of_the_summed_loss():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = self.perturb("h", nn.BatchNorm(use_running_average=False)(nn.Dense(4)(x)))
            h = nn.BatchNorm(use_running_average=False, name="inner")(nn.tanh(h))
            return nn.Dense(3)(h)

    x, y = zoo.inputs((5, 3)), zoo.labels(5)
    variables = zoo.variables(Net(), x)
    weights = jnp.arange(1.0, 6.0)

    def summed(perturbation):
        given = {**variables, "perturbations": {"h": perturbation}}
        logits, _ = Net().apply(given, x, mutable=["batch_stats"])
        return jnp.sum(weights * zoo.cross_entropy(logits, y))

    expected = jnp.linalg.norm(jax.grad(summed)(jnp.zeros((5, 4))), axis=1)
    loss_and_norm = har_jax.loss_and_jacobian_norm(
        Net().apply,
        layers=lambda module, method: (
            har_jax.normalization_layers(module, method) and module.name != "inner"
        ),
    )
    r = loss_and_norm(
        lambda z: weights * zoo.cross_entropy(z, y), variables, x, mutable=["batch_stats"]
    )
    close(r.norm, expected)
    _, mutated = Net().apply(variables, x, mutable=["batch_stats"])
    chex.assert_trees_all_close(r.mutated, mutated)


def test_what_the_model_mutates_comes_back_without_the_zeros():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.LayerNorm()(x)
            self.sow("intermediates", "mine", x)
            return nn.Dense(3)(x)

    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    variables = zoo.variables(Net(), x)
    variables.pop("intermediates", None)
    loss_and_norm = har_jax.loss_and_jacobian_norm(Net().apply)
    for mutable in (["intermediates"], True):
        r = loss_and_norm(lambda z: zoo.cross_entropy(z, y), variables, x, mutable=mutable)
        _, mutated = Net().apply(variables, x, mutable=mutable)
        chex.assert_trees_all_close(r.mutated, mutated)


def test_a_custom_vjp_activation():
    @jax.custom_vjp
    def activation(x):
        return jnp.tanh(x)

    activation.defvjp(lambda x: (jnp.tanh(x), jnp.tanh(x)), lambda y, g: (g * (1 - y**2),))

    def net(act):
        return nn.Sequential([nn.LayerNorm(), nn.Dense(4), act, nn.LayerNorm(), nn.Dense(3)])

    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    params = zoo.variables(net(jnp.tanh), x)["params"]

    def gradient(model):
        loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)

        def objective(params):
            r = loss_and_norm(lambda z: zoo.cross_entropy(z, y), {"params": params}, x)
            return jnp.mean(r.loss + r.norm)

        return jax.jit(jax.grad(objective))(params)

    chex.assert_trees_all_close(
        gradient(net(activation)), gradient(net(jnp.tanh)), rtol=1e-5, atol=1e-7
    )


def test_an_example_without_gradient_has_norm_zero_and_finite_gradients():
    model = nn.Sequential([nn.LayerNorm(), nn.Dense(3)])
    x = zoo.inputs(VECTORS)
    params = zoo.variables(model, x)["params"]
    alive = jnp.array([1.0, 0.0, 1.0, 0.0, 1.0])
    for reduction in REDUCTIONS:
        loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply, reduction=reduction)

        def objective(params, loss_and_norm=loss_and_norm):
            r = loss_and_norm(lambda z: alive * jnp.sum(z**2, axis=1), {"params": params}, x)
            return jnp.sum(r.norm), r.norm

        gradients, norm = jax.jit(jax.grad(objective, has_aux=True))(params)
        assert np.all((np.asarray(norm) > 0) == (np.asarray(alive) > 0))
        chex.assert_tree_all_finite(gradients)
        assert all(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(gradients))


def test_bfloat16_activations_are_summed_in_float32():
    model = nn.Sequential([nn.LayerNorm(dtype=jnp.bfloat16), nn.Dense(512, dtype=jnp.bfloat16)])
    x, y = zoo.inputs((5, 512)), zoo.labels(5)
    variables = zoo.variables(model, x)
    r = run(model, variables, x, y)
    assert r.outputs.dtype == jnp.bfloat16
    assert r.norm.dtype == jnp.float32
    (gradients,) = jax.vjp(
        lambda h: zoo.cross_entropy(
            model.layers[1].apply({"params": variables["params"]["layers_1"]}, h), y
        ),
        model.layers[0].apply({"params": variables["params"]["layers_0"]}, x),
    )[1](jnp.ones(5, jnp.bfloat16))
    assert gradients.dtype == jnp.bfloat16
    close(r.norm, np.linalg.norm(np.asarray(gradients, np.float64), axis=1), rtol=1e-2)
    # A sum in bfloat16 loses whole terms; its error is far beyond that of one rounding.
    wide = np.asarray(gradients).astype(np.float64)
    close(np.square(r.norm), np.square(wide).sum(axis=1), rtol=2e-2)


def test_any_layer_and_any_layout():
    model = nn.RNN(nn.SimpleCell(4), time_major=True)
    x = zoo.inputs((6, 5, 3))  # time, batch, features
    variables = zoo.variables(model, x)
    last_step = lambda outputs: jnp.sum(outputs[-1] ** 2, axis=1)
    loss_and_norm = har_jax.loss_and_jacobian_norm(
        model.apply, layers=lambda module, method: isinstance(module, nn.RNN), in_axes=1
    )
    r = loss_and_norm(last_step, variables, x)
    close(r.norm, np.linalg.norm(2 * model.apply(variables, x)[-1], axis=1))


def test_a_stated_axis_spares_the_trace_at_twice_the_batch():
    class Fixed(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.LayerNorm()(x).reshape(5, 3)  # works at batch size 5 only
            return nn.Dense(3)(x)

    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    variables = zoo.variables(Fixed(), x)
    with pytest.raises(TypeError, match="reshape") as caught:
        run(Fixed(), variables, x, y)
    assert any("twice the batch, 10 rows" in note for note in caught.value.__notes__)
    norms = [run(Fixed(), variables, x, y, tap_axes=axes).norm for axes in (0, {"LayerNorm_0": 0})]
    close(norms[0], norms[1])
    with pytest.raises(har_jax.TapError, match=r"tap_axes names \['nrom'\]; the taps are"):
        run(Fixed(), variables, x, y, tap_axes={"nrom": 0})
    with pytest.raises(har_jax.TapError, match=r"puts the batch of LayerNorm_0, \[5, 3\], on 2"):
        run(Fixed(), variables, x, y, tap_axes=2)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.Dense(3), {}, "selects no call of the model"),
        (
            nn.Sequential([lambda x: x.reshape(-1, 1), nn.LayerNorm(), lambda x: x.reshape(-1, 3)]),
            {},
            r"no axis of layers_1, whose output has shape \[15, 1\], indexes the 5 examples",
        ),
        (
            nn.Sequential([lambda x: jnp.argmax(x, axis=1), nn.Embed(3, 3)]),
            {"layers": lambda module, method: method == "attend_to"},
            "selects no call",
        ),
        (nn.LayerNorm(), {"in_axes": (0, 0)}, "in_axes has 2 entries for 1 arguments"),
        (nn.LayerNorm(), {"in_axes": None}, "no input carries the batch"),
        (nn.LayerNorm(), {"in_axes": {"mask": 0}}, r"in_axes names 'mask'; the arguments are 0"),
        (nn.LayerNorm(), {"in_axes": 2}, r"argument 0 has shape \[5, 3\] and no axis 2"),
        (nn.LayerNorm(), {"layers": nn.LayerNorm}, "is not a filter"),
        (
            nn.Sequential([lambda x: x @ x.T, nn.LayerNorm(use_scale=False, use_bias=False)]),
            {},
            r"axes 0 and 1 of layers_1, whose output has shape \[5, 5\], both grow with the batch",
        ),
        (nn.LayerNorm(), {"reduction": "mean"}, "reduction='mean' is unknown"),
    ],
)  # fmt: skip
def test_what_cannot_be_tapped_is_refused_by_name(model, options, message):
    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    with pytest.raises(ValueError, match=message):
        run(model, zoo.variables(model, x), x, y, **options)


class Body(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.tanh(nn.Dense(x.shape[-1])(nn.LayerNorm()(x)))


JittedBody = nn.jit(Body)


class Bodies(nn.Module):
    """Bodies one after the other, each of a class of its own, then a head."""

    classes: tuple

    @nn.compact
    def __call__(self, x):
        for index, body in enumerate(self.classes):
            x = body(name=f"body{index}")(x)
        return nn.Dense(3)(nn.LayerNorm(name="last")(x))


def test_the_cache_of_module_level_jit_loses_no_layer():
    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    variables = zoo.variables(Bodies((Body,)), x)
    plain = run(Bodies((Body,)), variables, x, y)
    for _ in range(3):
        close(run(Bodies((JittedBody,)), variables, x, y).norm, plain.norm)
    dense = lambda module, method: method == "__call__" and isinstance(module, nn.Dense)
    jitted = run(Bodies((JittedBody,)), variables, x, y, layers=dense)
    close(jitted.norm, run(Bodies((Body,)), variables, x, y, layers=dense).norm)
    twice, written_out = (Bodies((body, body)) for body in (JittedBody, Body))
    variables = zoo.variables(written_out, x)
    for _ in range(2):
        close(run(twice, variables, x, y).norm, run(written_out, variables, x, y).norm)
    with pytest.raises(har_jax.TapError, match=r"several modules of one class are under nn\.jit"):
        run(twice, variables, x, y, layers=har_jax.normalization_layers_but_stem)


def test_a_norm_that_calls_its_superclass_is_one_layer():
    class Cast(nn.LayerNorm):
        def __call__(self, x):
            return super().__call__(x.astype(jnp.float32)).astype(x.dtype)

    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    plain, cast = (nn.Sequential([norm(), nn.Dense(3)]) for norm in (nn.LayerNorm, Cast))
    variables = zoo.variables(plain, x)
    for reduction in REDUCTIONS:
        norms = [run(net, variables, x, y, reduction=reduction).norm for net in (plain, cast)]
        close(norms[0], norms[1])


def test_two_models_in_one_apply_are_both_tapped():
    norm, dense = nn.LayerNorm(), nn.Dense(3)
    net, twice = nn.Sequential([norm, dense]), nn.Sequential([norm, dense, norm, dense])
    x, y = zoo.inputs((5, 3)), zoo.labels(5)
    variables = zoo.variables(net, x)
    apply = lambda variables, x: net.apply(variables, net.apply(variables, x))
    r = har_jax.loss_and_jacobian_norm(apply)(lambda z: zoo.cross_entropy(z, y), variables, x)
    close(r.norm, run(twice, variables, x, y).norm)


def test_layers_that_share_a_scope_are_two():
    class Wrapped(nn.Module):
        shared: bool

        def setup(self):
            self.norm = nn.LayerNorm()
            if self.shared:
                nn.share_scope(self, self.norm)

        def __call__(self, x):
            return 2 * self.norm(x)

    class Net(nn.Module):
        shared: bool

        @nn.compact
        def __call__(self, x):
            return nn.Dense(3)(nn.tanh(Wrapped(self.shared, name="wrapped")(x)))

    layers = lambda module, method: (
        method == "__call__" and isinstance(module, (Wrapped, nn.LayerNorm))
    )
    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    variables = zoo.variables(Net(False), x)
    plain = run(Net(False), variables, x, y, layers=layers)
    params = {**variables["params"], "wrapped": variables["params"]["wrapped"]["norm"]}
    shared = run(Net(True), {"params": params}, x, y, layers=layers)
    assert len(plain.layer_norms) == len(shared.layer_norms) == 2
    close(shared.norm, plain.norm)


def test_an_array_that_is_returned_twice_is_one_layer():
    class Carry(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.tanh(nn.Dense(4)(x))
            return (h, 2 * h), h

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            (one, two), three = Carry(name="carry")(x)
            return nn.Dense(3, name="head")(one + two * three)

    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    variables = zoo.variables(Net(), x)
    r = run(Net(), variables, x, y, layers=lambda module, _: isinstance(module, Carry))
    assert list(r.layer_norms) == ["carry[0]", "carry[1]"]
    h = jnp.tanh(nn.Dense(4).apply({"params": variables["params"]["carry"]["Dense_0"]}, x))
    head = {"params": variables["params"]["head"]}
    loss = lambda h, two: zoo.cross_entropy(nn.Dense(3).apply(head, h + two * h), y).sum()
    for norm, gradient in zip(
        r.layer_norms.values(), jax.grad(loss, (0, 1))(h, 2 * h), strict=True
    ):
        close(norm, np.linalg.norm(gradient, axis=1))


def test_within_a_spectral_norm():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x, _ = nn.SpectralNorm(zoo.Block("layer"))(x, update_stats=False)
            return nn.Dense(3)(x)

    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    variables = zoo.variables(Net(), x)
    close(run(Net(), variables, x, y).norm, zoo.brute_force(Net(), variables, x, y)[0])


def test_what_is_not_a_number_stays_so():
    net = nn.Sequential([nn.LayerNorm(), nn.Dense(3)])
    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    weights = jnp.array([1.0, np.nan, 1.0, 0.0, 1.0])
    r = har_jax.loss_and_jacobian_norm(net.apply)(
        lambda z: weights * zoo.cross_entropy(z, y), zoo.variables(net, x), x
    )
    assert np.isnan(r.norm).tolist() == [False, True, False, False, False]


def test_complex_activations_have_real_norms():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.LayerNorm(dtype=jnp.complex64)(x * (1 + 0.3j) + 0.2j * x[:, ::-1])
            return nn.Dense(3, name="head")(jnp.abs(h))

    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    variables = zoo.variables(Net(), x)
    r = run(Net(), variables, x, y)
    _, state = Net().apply(
        variables, x, mutable=["intermediates"], capture_intermediates=har_jax.normalization_layers
    )
    (h,) = state["intermediates"]["LayerNorm_0"]["__call__"]
    head = {"params": variables["params"]["head"]}
    loss = lambda size: zoo.cross_entropy(nn.Dense(3).apply(head, size), y)
    # |d loss / d h| = |d loss / d |h||
    expected = jax.grad(lambda size: loss(size).sum())(jnp.abs(h))
    assert r.norm.dtype == jnp.float32
    close(r.norm, np.linalg.norm(expected, axis=1))


def test_functions_around_apply_need_to_pass_nothing_on():
    net = nn.Sequential([nn.LayerNorm(), nn.Dense(3)])
    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    variables = zoo.variables(net, x)
    expected = run(net, variables, x, y).norm
    for apply in (
        lambda variables, x: net.apply({"params": variables["params"]}, x),
        jax.jit(net.apply),
    ):
        r = har_jax.loss_and_jacobian_norm(apply)(lambda z: zoo.cross_entropy(z, y), variables, x)
        close(r.norm, expected)
    dropping = har_jax.loss_and_jacobian_norm(lambda variables, x, mutable: net.apply(variables, x))
    with pytest.raises(TypeError, match=r"mutable=\['batch_stats'\].*has to pass `mutable` on"):
        dropping(lambda z: z[:, 0], variables, x, mutable=["batch_stats"])


def test_what_is_no_apply_is_told_so():
    net, x = nn.Sequential([nn.LayerNorm()]), zoo.inputs(VECTORS)
    with pytest.raises(TypeError, match=r"a Sequential is given in place of its `apply`"):
        har_jax.loss_and_jacobian_norm(net)
    with pytest.raises(TypeError, match=r"NNX module.*har_jax\.nnx\.loss_and_jacobian_norm"):
        har_jax.loss_and_jacobian_norm(nnx.LayerNorm(3, rngs=nnx.Rngs(0)))
    with pytest.raises(TypeError, match="apply=3 is no function"):
        har_jax.loss_and_jacobian_norm(3)
    loss_and_norm = har_jax.loss_and_jacobian_norm(net.apply)
    variables = zoo.variables(net, x)
    loss = lambda z: z[:, 0]
    with pytest.raises(ValueError, match=r"lists of numbers are not \(jnp.asarray makes one\)"):
        loss_and_norm(loss, variables, x.tolist())
    with pytest.raises(TypeError, match="the first argument is a dict in place of a function from"):
        loss_and_norm(variables, x, loss)
    for wrong, kind in ((x, type(x).__name__), (loss, "function")):
        with pytest.raises(TypeError, match=f"the second argument is a {kind} in place of variabl"):
            loss_and_norm(loss, wrong, x)
    with pytest.raises(ScopeCollectionNotFound) as unwrapped:
        loss_and_norm(loss, variables["params"], x)
    assert any('give {"params": params}' in note for note in unwrapped.value.__notes__)


class Tabled(nn.Module):
    """Classes are compared with a table of embeddings that passes a norm of its own."""

    @nn.compact
    def __call__(self, x, table, mask=None):
        h = nn.LayerNorm(name="rows")(nn.Dense(4)(x))
        if mask is not None:
            h = h * mask[:, None]
        return h @ nn.LayerNorm(name="classes")(table).T


@pytest.mark.parametrize("classes", [3, 5])
def test_rows_that_may_be_no_examples_are_refused_at_any_batch_size(classes):
    x, table = zoo.inputs(VECTORS), zoo.inputs((classes, 4), seed=1)
    y, mask = zoo.labels(5), np.ones(5, np.float32)
    variables = jax.jit(Tabled().init)(jax.random.key(0), x, table)
    rows = lambda module, method: module.name == "rows"

    def norm(layers=har_jax.normalization_layers, by_keyword=True, **options):
        loss_and_norm = har_jax.loss_and_jacobian_norm(Tabled().apply, layers, **options)
        given = dict(table=table, mask=mask) if by_keyword else dict(mask=mask)
        args = (x,) if by_keyword else (x, table)
        return loss_and_norm(lambda z: zoo.cross_entropy(z, y), variables, *args, **given).norm

    for by_keyword, argument in ((True, "table"), (False, 1)):
        with pytest.raises(ValueError, match=rf"{argument}.*in_axes"):
            norm(by_keyword=by_keyword)
        assert norm(rows, by_keyword, in_axes={argument: None}).shape == (5,)
        with pytest.raises(har_jax.TapError, match="no axis of classes"):
            norm(by_keyword=by_keyword, in_axes={argument: None})


def test_two_inputs_whose_examples_only_the_loss_compares():
    class Siamese(nn.Module):
        @nn.compact
        def __call__(self, one, other):
            embed = nn.Sequential([nn.Dense(4), nn.LayerNorm(), nn.Dense(3)])
            return embed(one), {"other": embed(other), "temperature": 0.1, "name": "text"}

    one, other = zoo.inputs(VECTORS), zoo.inputs(VECTORS, seed=1)
    variables = jax.jit(lambda key: Siamese().init(key, one, other))(jax.random.key(0))

    def run_with(**options):
        return har_jax.loss_and_jacobian_norm(Siamese().apply, **options)(
            lambda z: jnp.sum((z[0] - z[1]["other"]) ** 2, axis=1), variables, one, other
        )

    with pytest.raises(har_jax.TapError, match=r"in_axes=\{0: 0, 1: 0\} if they are"):
        run_with()
    for axes in ((0, 0), {0: 0, 1: 0}):
        r = run_with(in_axes=axes)
        assert len(r.layer_norms) == 2
        assert np.all(r.norm > 0)
        assert (r.outputs[1]["temperature"], r.outputs[1]["name"]) == (0.1, "text")


def test_rules_of_differentiation_that_close_over_what_the_model_computes():
    class Reversal(nn.Module):
        reversed: bool

        @nn.compact
        def __call__(self, x):
            h = nn.LayerNorm()(x)
            factor = nn.sigmoid(self.param("p", nn.initializers.ones, ()))
            if self.reversed:
                identity = jax.custom_jvp(lambda h: h)
                identity.defjvp(lambda primals, tangents: (primals[0], factor * tangents[0]))
                h = identity(h)
            return nn.Dense(3)(h)

    x, y = zoo.inputs(VECTORS), zoo.labels(5)
    variables = zoo.variables(Reversal(True), x)
    reversed_, plain = (run(Reversal(which), variables, x, y).norm for which in (True, False))
    close(reversed_, plain * nn.sigmoid(variables["params"]["p"]))


def test_inputs_of_two_batch_sizes_and_losses_of_another_shape_are_refused():
    model, x = nn.Sequential([nn.LayerNorm()]), zoo.inputs(VECTORS)
    loss_and_norm = har_jax.loss_and_jacobian_norm(lambda v, x, table: model.apply(v, x + table[0]))
    with pytest.raises(
        ValueError, match=r"sizes \(argument 0 holds 5, argument 1 holds 2\).*in_axes"
    ):
        loss_and_norm(lambda z: z[:, 0], zoo.variables(model, x), x, np.ones((2, 3)))
    loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)
    for loss in (jnp.sum, lambda z: z, lambda z: jnp.argmax(z, axis=1), lambda z: (z[:, 0], 1)):
        with pytest.raises(ValueError, match=r"one floating number per example, shape \[B\]"):
            loss_and_norm(loss, zoo.variables(model, x), x)
    with pytest.raises(ValueError, match=r"the loss has 3 entries, and axis 0 of the tap layers_0"):
        loss_and_norm(lambda z: z[:3, 0], zoo.variables(model, x), x)
