"""R of NNX models: equal to zeros added by hand; models are changed as by one call."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import errors, nnx

import har_jax
import har_jax.nnx
from har_jax.jacobian import REDUCTIONS
from tests import zoo

exact = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-12)
STRENGTH = np.linspace(0.0, 2.0, 4)


def added(h, zeros):
    return h if zeros is None else h + next(zeros)


class Block(nnx.Module):
    def __init__(self, width, rngs):
        conv = functools.partial(nnx.Conv, width, width, (3, 3), rngs=rngs)
        self.convs = nnx.List([conv(), conv()])
        self.norms = nnx.Dict(first=nnx.BatchNorm(width, rngs=rngs), second=norm_of(width, rngs))

    def __call__(self, x, zeros=None):
        h = nnx.relu(added(self.norms["first"](self.convs[0](x)), zeros))
        return nnx.relu(x + added(self.norms["second"](self.convs[1](h)), zeros))


def norm_of(width, rngs):
    return nnx.BatchNorm(width, momentum=0.9, rngs=rngs)


class ResNet(nnx.Module):
    """To whose norms zeros can be added by hand, in the order of the calls."""

    def __init__(self, rngs):
        self.stem = nnx.Conv(3, 4, (3, 3), rngs=rngs)
        self.norm = norm_of(4, rngs)
        self.blocks = nnx.List([Block(4, rngs), Block(4, rngs)])
        self.head = nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x, zeros=None):
        x = nnx.relu(added(self.norm(self.stem(x)), zeros))
        for block in self.blocks:
            x = block(x, zeros)
        return self.head(x.mean(axis=(1, 2)))


def made(build, *args):
    """A model in float64, whose parameters and statistics are drawn."""
    model = build(*args, nnx.Rngs(0, dropout=1))
    rng = np.random.default_rng(0)
    draw = lambda a: a + 0.3 * rng.uniform(size=a.shape)
    nnx.update(model, jax.tree.map(draw, nnx.state(model, (nnx.Param, nnx.BatchStat))))
    return model


def by_hand(model, shapes, y, call):
    """Norms and the gradient of an objective, by zeros that ``call(model, zeros)`` adds.

    Returns functions of parameters, so that what is differentiated once more is plain JAX.
    """
    graph, params, rest = nnx.split(nnx.clone(model), nnx.Param, ...)

    def summed(zeros, params):
        outputs = call(nnx.merge(graph, params, rest, copy=True), iter(zeros))
        loss = zoo.cross_entropy(outputs, y)
        return loss.sum(), loss

    def norms(params, reduction):
        zeros = [jnp.zeros(shape) for shape in shapes]
        gradients, loss = jax.grad(summed, has_aux=True)(zeros, params)
        squares = jnp.stack([jnp.sum(g.reshape(len(y), -1) ** 2, axis=1) for g in gradients])
        if reduction == "root_sum_square":
            return loss, jnp.sqrt(squares.sum(axis=0)), gradients
        return loss, jnp.sqrt(squares).sum(axis=0), gradients

    def objective(params, reduction):
        loss, norm, _ = norms(params, reduction)
        return jnp.mean(loss + STRENGTH * norm)

    def moved(params):
        """Of first order: the loss at activations that are moved along their gradient."""
        _, norm, gradients = norms(params, "root_sum_square")
        step = jax.lax.stop_gradient(STRENGTH / norm)
        zeros = [
            jnp.expand_dims(step, range(1, g.ndim)) * jax.lax.stop_gradient(g) for g in gradients
        ]
        return summed(zeros, params)[0] / len(y)

    return params, norms, objective, moved


def same_state(one, other):
    leaves, expected = (jax.tree.leaves_with_path(nnx.state(each)) for each in (one, other))
    for (path, value), (other_path, other_value) in zip(leaves, expected, strict=True):
        assert path == other_path
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            assert np.all(value == other_value)
        else:
            exact(value, other_value, err_msg=str(path))


@pytest.mark.usefixtures("wide")
@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False])
def test_a_resnet_equals_zeros_added_by_hand(training):
    x, y = zoo.inputs((4, 4, 4, 3)).astype(np.float64), zoo.labels(4)
    model = made(ResNet)
    model.train() if training else model.eval()
    called = nnx.clone(model)
    outputs = called(x)
    params, norms, objective, moved = by_hand(
        model, [(4, 4, 4, 4)] * 5, y, lambda model, zeros: model(x, zeros)
    )

    @nnx.jit
    def run(model):
        def wrt(model, **options):
            r = har_jax.nnx.loss_and_jacobian_norm(**options)(
                lambda z: zoo.cross_entropy(z, y), model, x
            )
            return jnp.mean(r.loss + STRENGTH * r.norm), r

        graph, state = nnx.split(model)
        found = []
        for options in [{"reduction": name} for name in REDUCTIONS] + [
            {"derivative": "first_order"}
        ]:
            copy = nnx.merge(graph, state, copy=True)
            found.append(nnx.grad(functools.partial(wrt, **options), has_aux=True)(copy))
        nnx.update(model, nnx.state(copy))
        return found

    found = run(model)
    same_state(model, called)  # statistics are updated, and once
    objectives = [*(functools.partial(objective, reduction=name) for name in REDUCTIONS), moved]
    expected = jax.jit(
        lambda params: [
            (*norms(params, name), jax.grad(of)(params))
            for name, of in zip([*REDUCTIONS, "root_sum_square"], objectives, strict=True)
        ]
    )(params)
    for (gradients, r), (loss, norm, _, by_params) in zip(found, expected, strict=True):
        exact(r.outputs, outputs)
        exact(r.loss, loss)
        exact(r.norm, norm)
        jax.tree.map(exact, nnx.to_pure_dict(gradients), nnx.to_pure_dict(by_params))
    names = [f"blocks/{block}/norms/{norm}" for block in (0, 1) for norm in ("first", "second")]
    assert sorted(r.layer_norms) == sorted(["norm", *names])
    for name, gradient in zip(["norm", *names], expected[0][2], strict=True):
        exact(r.layer_norms[name], np.linalg.norm(gradient.reshape(4, -1), axis=1))
    if not training:  # examples do not interact: each by itself
        loss_and_norm = har_jax.nnx.loss_and_jacobian_norm()
        single = loss_and_norm(lambda z: zoo.cross_entropy(z, y[1:2]), model, x[1:2])
        exact(single.norm, found[0][1].norm[1:2])


class Layer(nnx.Module):
    def __init__(self, rngs):
        self.attention_norm = nnx.LayerNorm(6, rngs=rngs)
        self.query = nnx.Linear(6, 6, rngs=rngs)
        self.norm = nnx.RMSNorm(6, rngs=rngs)
        self.dense = nnx.Linear(6, 6, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)

    def __call__(self, x, zeros=None):
        h = added(self.attention_norm(x), zeros)
        x = x + nnx.softmax(self.query(h) @ h.swapaxes(1, 2)) @ h
        return x + self.dropout(nnx.gelu(self.dense(added(self.norm(x), zeros))))


class Transformer(nnx.Module):
    """Layers whose parameters are stacked, which a scan runs."""

    def __init__(self, lift, rngs):
        self.lift = lift
        self.layers = nnx.split_rngs(splits=3)(nnx.vmap(lambda rngs: Layer(rngs)))(rngs)
        self.last = nnx.LayerNorm(6, rngs=rngs)
        self.head = nnx.Linear(6, 3, rngs=rngs)

    def __call__(self, x):
        step = lambda x, layer: layer(x)
        if self.lift == "remat":
            step = nnx.remat(step)
        x = nnx.scan(step, in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)(x, self.layers)
        return self.head(self.last(x)[:, 0])

    def written_out(self, x, zeros):
        graph, state = nnx.split(self.layers)
        for index in range(3):
            layer = nnx.merge(graph, jax.tree.map(lambda a, index=index: a[index], state))
            x = layer(x, zeros)
        return self.head(added(self.last(x), zeros)[:, 0])


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("lift", [pytest.param("none", marks=pytest.mark.slow), "remat"])
def test_a_transformer_of_scanned_layers_equals_the_loop_written_out(lift):
    x, y = zoo.inputs((4, 5, 6)).astype(np.float64), zoo.labels(4)
    model = made(Transformer, lift)
    called = nnx.clone(model)
    outputs = nnx.jit(lambda model: model(x))(called)
    params, norms, objective, _ = by_hand(
        model, [(4, 5, 6)] * 7, y, lambda model, zeros: model.written_out(x, zeros)
    )
    loss_and_norm = har_jax.nnx.loss_and_jacobian_norm()

    @nnx.jit
    def run(model):
        def objective(model):
            r = loss_and_norm(lambda z: zoo.cross_entropy(z, y), model, x)
            return jnp.mean(r.loss + STRENGTH * r.norm), r

        return nnx.grad(objective, has_aux=True)(model)

    gradients, r = run(model)
    exact(r.outputs, outputs)
    same_state(model, called)  # every layer's dropout has drawn once
    assert model.layers.dropout.rngs.count[...].tolist() == [1, 1, 1]
    expected, (_, norm, by_layer) = jax.jit(
        lambda params: (
            jax.grad(objective)(params, "root_sum_square"),
            norms(params, "root_sum_square"),
        )
    )(params)
    exact(r.norm, norm)
    sizes = [np.linalg.norm(gradient.reshape(4, -1), axis=1) for gradient in by_layer]
    exact(r.layer_norms["layers/attention_norm"], sizes[0:6:2])
    exact(r.layer_norms["layers/norm"], sizes[1:6:2])
    exact(r.layer_norms["last"], sizes[6])
    jax.tree.map(exact, nnx.to_pure_dict(gradients), nnx.to_pure_dict(expected))


def test_a_training_loop_of_nnx():
    """Steps with strength 0 are plain training's: parameters, statistics, dropout and all."""
    x, y = zoo.inputs((4, 3)), zoo.labels(4)

    def build(rngs):
        return nnx.Sequential(
            nnx.Linear(3, 4, rngs=rngs),
            nnx.BatchNorm(4, rngs=rngs),
            nnx.Dropout(0.5, rngs=rngs),
            nnx.Linear(4, 3, rngs=rngs),
        )

    def plain(model):
        return zoo.cross_entropy(model(x), y).mean()

    def regularized(model):
        r = har_jax.nnx.loss_and_jacobian_norm()(lambda z: zoo.cross_entropy(z, y), model, x)
        return jnp.mean(r.loss + 0.0 * r.norm)

    def train(objective, wrt):
        model = build(nnx.Rngs(0, dropout=1))
        optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=wrt)

        @nnx.jit
        def step(model, optimizer):
            loss, gradients = nnx.value_and_grad(objective, argnums=nnx.DiffState(0, wrt))(model)
            optimizer.update(model, gradients)
            return loss

        return [float(step(model, optimizer)) for _ in range(3)], model

    head = nnx.All(nnx.Param, nnx.PathContains(3))
    for wrt in (nnx.Param, head):
        (losses, model), (expected, called) = train(regularized, wrt), train(plain, wrt)
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        jax.tree.map(
            functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6),
            nnx.to_pure_dict(nnx.state(model, (nnx.Param, nnx.BatchStat, nnx.RngCount))),
            nnx.to_pure_dict(nnx.state(called, (nnx.Param, nnx.BatchStat, nnx.RngCount))),
        )
    assert int(model.layers[2].rngs.count[...]) == 3


class Shared(nnx.Module):
    """A norm that lies at two paths and is called three times, one that is called under a jit."""

    def __init__(self, jitted, rngs):
        self.dense = nnx.Linear(3, 3, rngs=rngs)
        self.first = nnx.LayerNorm(3, rngs=rngs)
        self.again = self.first
        self.others = nnx.Dict(one=nnx.LayerNorm(3, rngs=rngs), two=nnx.LayerNorm(3, rngs=rngs))
        self.jitted = jitted

    def __call__(self, x, zeros=None):
        for norm in (self.first, self.again, self.first):
            x = x + nnx.tanh(self.dense(added(norm(x), zeros)))
        call = lambda norm, x: norm(x)
        if self.jitted:
            call = nnx.jit(call)
        for norm in (self.others["one"], self.others["two"]):
            x = x + nnx.tanh(added(call(norm, x), zeros))
        return x


@pytest.mark.usefixtures("wide")
def test_every_call_is_a_layer_and_every_module_has_its_name():
    x, y = zoo.inputs((4, 3)).astype(np.float64), zoo.labels(4)
    for jitted in (False, True):
        model = made(Shared, jitted)
        params, norms, *_ = by_hand(model, [(4, 3)] * 5, y, lambda model, zeros: model(x, zeros))
        r = loss_and_norm_of(model, y)(x)
        _, norm, by_layer = jax.jit(norms, static_argnums=1)(params, "root_sum_square")
        exact(r.norm, norm)
        names = ["again[0]", "again[1]", "again[2]", "others/one", "others/two"]
        assert list(r.layer_norms) == names
        for found, gradient in zip(r.layer_norms.values(), by_layer, strict=True):
            exact(found, np.linalg.norm(gradient, axis=1))
        only = lambda path, module: path == ("others", "two")
        r = loss_and_norm_of(model, y, layers=only)(x)
        exact(r.norm, np.linalg.norm(by_layer[4], axis=1))


def loss_and_norm_of(model, y, **options):
    loss_and_norm = har_jax.nnx.loss_and_jacobian_norm(**options)
    return functools.partial(loss_and_norm, lambda z: zoo.cross_entropy(z, y), model)


def test_branches_ensembles_and_modules_that_call_their_superclass():
    class Cast(nnx.LayerNorm):
        def __call__(self, x):
            return super().__call__(x.astype(jnp.float32))

    class Net(nnx.Module, pytree=False):
        def __init__(self, rngs):
            make = nnx.split_rngs(splits=2)(nnx.vmap(lambda rngs: Cast(3, rngs=rngs)))
            self.heads = make(rngs)
            self.one, self.two = nnx.LayerNorm(3, rngs=rngs), nnx.RMSNorm(3, rngs=rngs)

        def __call__(self, x, flag):
            x = nnx.vmap(lambda norm, x: norm(x), in_axes=(0, None))(self.heads, x).sum(axis=0)
            branch = lambda name: lambda self, x: getattr(self, name)(x)
            return nnx.cond(flag, branch("one"), branch("two"), self, nnx.tanh(x))

    x, y = zoo.inputs((4, 3)), zoo.labels(4)
    model = made(Net)
    r = loss_and_norm_of(model, y)(x, True)
    assert r.layer_norms["heads"].shape == (2, 4)
    assert np.all(np.asarray(r.layer_norms["two"]) == 0)
    h = model.one(nnx.tanh(nnx.vmap(lambda norm: norm(x))(model.heads).sum(axis=0)))
    expected = jax.grad(lambda h: zoo.cross_entropy(h, y).sum())(h)
    np.testing.assert_allclose(r.layer_norms["one"], np.linalg.norm(expected, axis=1), rtol=1e-5)
    assert type(model.one) is nnx.LayerNorm  # the model's own modules are left alone


class Noisy(nnx.Module):
    """Changes all that a call can change."""

    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(3, rngs=rngs)
        self.dropout = nnx.Dropout(0.5)
        self.calls = nnx.Variable(jnp.array(0))
        self.last = jnp.zeros(3)
        self.number = 0

    def __call__(self, x, rngs=None, count=False):
        self.calls[...] += 1
        self.last = x[-1]
        self.sown = nnx.Intermediate(x.sum())
        self.number += count
        return self.dropout(self.norm(x), rngs=rngs)


@pytest.mark.parametrize("jit", [lambda f: f, nnx.jit], ids=["eager", "jit"])
def test_what_a_call_changes_is_changed_once_in_arguments_too(jit):
    x, y = zoo.inputs((4, 3)), zoo.labels(4)
    model, rngs = Noisy(nnx.Rngs(0)), nnx.Rngs(dropout=1)
    called, same_rngs = nnx.clone((model, rngs))
    outputs = called(x, rngs=same_rngs)
    r = jit(lambda model, rngs: loss_and_norm_of(model, y)(x, rngs=rngs))(model, rngs)
    np.testing.assert_allclose(r.outputs, outputs, rtol=1e-6)
    same_state((model, rngs), (called, same_rngs))
    assert int(rngs.dropout.count[...]) == int(model.calls[...]) == 1


def test_what_cannot_be_changed_is_refused():
    x, y = zoo.inputs((4, 3)), zoo.labels(4)
    model = Noisy(nnx.Rngs(0))
    with pytest.raises(har_jax.TapError, match=r"a call of the model changes number, and not as"):
        loss_and_norm_of(model, y)(x, rngs=nnx.Rngs(1), count=True)
    assert (int(model.calls[...]), model.number) == (0, 0)

    referring = nnx.clone(model)
    referring.last = jax.new_ref(jnp.zeros(3))
    with pytest.raises(har_jax.TapError, match=r"last refers to a mutable array"):
        loss_and_norm_of(referring, y)(x, rngs=nnx.Rngs(1))

    def outside(weight):
        return loss_and_norm_of(model, y)(weight * x, rngs=nnx.Rngs(1)).norm.sum()

    with pytest.raises(errors.TraceContextError):  # as of a call
        jax.grad(outside)(1.0)


def test_what_cannot_be_tapped_is_refused_by_name():
    class Net(nnx.Module):
        def __init__(self, kind, rngs):
            self.norm, self.head = nnx.LayerNorm(3, rngs=rngs), nnx.Linear(3, 3, rngs=rngs)
            self.kind = kind

        def __call__(self, x):
            if self.kind == "while":
                more = lambda carry: carry[0].sum() < 0
                x = nnx.while_loop(more, lambda carry: (self.norm(carry[0]),), (x,))[0]
            elif self.kind == "custom":
                call = nnx.custom_vjp(lambda norm, x: norm(x))
                call.defvjp(lambda norm, x: (norm(x), None), lambda _, g: (None, g[1]))
                x = call(self.norm, x)
            elif self.kind == "by class":
                x = nnx.LayerNorm.__call__(self.norm, x)
            elif self.kind == "dropped":
                self.norm(x)
            else:
                x = self.norm(x).reshape(-1, 1).sum(axis=1).reshape(x.shape)
            return self.head(x)

    x, y = zoo.inputs((4, 3)), zoo.labels(4)
    refused = functools.partial(pytest.raises, har_jax.TapError)
    run = lambda kind, **options: loss_and_norm_of(Net(kind, nnx.Rngs(0)), y, **options)(x)
    assert run("").norm.shape == (4,)
    for kind, message in [
        ("while", r"norm is called inside of jax\.lax\.while_loop"),
        ("custom", r"norm is called inside of a function with derivatives of its own"),
        ("by class", r"selects norm, of which no call is seen"),
    ]:
        with refused(match=message):
            run(kind)
    with refused(match=r"selects no module of the Net.*isinstance\(module, nnx\.Linear\)"):
        run("", layers=lambda path, module: False)
    with refused(match=r"tap_axes names \['nrom'\]; the taps are \['norm'\]"):
        run("", tap_axes={"nrom": 0})
    with pytest.raises(ValueError, match=r"is not a filter \(path, module\) -> bool"):
        run("", layers=nnx.LayerNorm)
    with pytest.raises(ValueError, match=r"reduction='mean' is unknown"):
        run("", reduction="mean")
    with pytest.raises(ValueError, match="in_axes names 'mask'; the arguments are 0"):
        run("", in_axes={"mask": 0})
    with pytest.raises(TypeError, match=r"a LayerNorm is given in place of a filter"):
        har_jax.nnx.loss_and_jacobian_norm(nnx.LayerNorm(3, rngs=nnx.Rngs(0)))
    silent = type("Silent", (nnx.Module,), {})
    with pytest.raises(TypeError, match=r"a Silent cannot be called: give a module whose __call__"):
        loss_and_norm_of(silent(), y)(x)
    with pytest.raises(TypeError, match=r"a function is given in place of an NNX module"):
        loss_and_norm_of(lambda x: x, y)(x)
