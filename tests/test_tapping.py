"""However often a block runs, and whatever stands between it and the model, R counts every run."""

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import har_jax
from har_jax import tapping
from har_jax.jacobian import REDUCTIONS
from tests import zoo

BATCH, TIME, WIDTH = 4, 3, 5


class Compact(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.tanh(nn.LayerNorm(epsilon=1e-3)(nn.Dense(WIDTH)(x)))


class Setup(nn.Module):
    def setup(self):
        self.norm, self.dense = nn.LayerNorm(epsilon=1e-3), nn.Dense(WIDTH)

    def __call__(self, x):
        return nn.tanh(self.norm(self.dense(x)))


def twice(block):
    return lambda x: block(block(x))


def scanned(block, length=3):
    return lambda x: jax.lax.scan(lambda carry, _: (block(carry), None), x, None, length=length)[0]


# What stands between a block and the model, and the same written out in calls of the block.
BETWEEN = {
    "jit": (lambda block: twice(jax.jit(block)), twice),
    "checkpoint": (lambda block: twice(jax.checkpoint(block)), twice),
    "scan": (scanned, lambda block: lambda x: block(block(block(x)))),
    "fori_loop": (
        lambda block: lambda x: jax.lax.fori_loop(0, 2, lambda _, carry: block(carry), x),
        twice,
    ),
    "vmap of examples": (jax.vmap, lambda block: block),
    "map of examples": (lambda block: lambda x: jax.lax.map(block, x), lambda block: block),
    "vmap of positions": (
        lambda block: jax.vmap(block, in_axes=1, out_axes=1),
        lambda block: lambda x: jnp.stack([block(row) for row in x.swapaxes(0, 1)], 1),
    ),
    "vmap of what does not depend on it": (
        lambda block: lambda x: jax.vmap(lambda s: s * block(x))(jnp.arange(3.0)).sum(0),
        lambda block: lambda x: block(x) * 0.0 + block(x) * 1.0 + block(x) * 2.0,
    ),
    "cond": (
        lambda block: lambda x: jax.lax.cond(jnp.sum(x) < 1e6, block, lambda x: 0 * block(x), x),
        lambda block: block,
    ),
    "switch": (
        lambda block: lambda x: jax.lax.switch(1, [jnp.sin, twice(block), jnp.cos], x),
        twice,
    ),
}


class Net(nn.Module):
    """A block under some of :data:`BETWEEN`, one after the other, or written out."""

    between: tuple
    written_out: bool = False
    block: type = Compact

    @nn.compact
    def __call__(self, x):
        block = self.block()
        if self.is_initializing():  # parameters cannot be made inside of transformations of JAX
            block(x)
        for names in self.between if not self.is_initializing() else ():
            run = lambda x: block(x)  # JAX hashes functions, and Flax does not let it hash modules
            for name in names:
                run = BETWEEN[name][self.written_out](run)
            x = run(x)
        return nn.Dense(3)(x.reshape(len(x), -1, WIDTH).mean(axis=1))


def problem(net, shape=(BATCH, TIME, WIDTH)):
    x, y = zoo.inputs(shape), zoo.labels(BATCH)
    return zoo.variables(net, x), x, y


def norms(net, variables, x, y, **options):
    """Both readings of R."""
    return [
        har_jax.loss_and_jacobian_norm(net.apply, reduction=reduction, **options)(
            lambda z: zoo.cross_entropy(z, y), variables, x
        ).norm
        for reduction in REDUCTIONS
    ]


def norms_and_gradient(net, variables, x, y, **options):
    """Both readings of R, and the gradient of the first."""

    def objective(params):
        both = norms(net, {"params": params}, x, y, **options)
        return jnp.sum(both[0]), both

    return jax.grad(objective, has_aux=True)(variables["params"])


def assert_as_written_out(between, block=Compact, *, compare):
    with jax.enable_x64(True):
        variables, x, y = problem(Net(between, block=block))
        wide = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), (variables, x))
        nets = [Net(between, written_out, block) for written_out in (False, True)]
        both = jax.jit(lambda *given: [compare(net, *given, y) for net in nets])
        found, expected = both(*wide)
    chex.assert_trees_all_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", BETWEEN)
def test_each_transformation(name):
    assert_as_written_out(((name,),), Setup if name == "jit" else Compact, compare=norms)


@pytest.mark.parametrize(
    "name", ["jit", *(pytest.param(name, marks=pytest.mark.slow) for name in [*BETWEEN][1:])]
)
def test_the_gradient_through_each_transformation(name):
    assert_as_written_out(((name,),), compare=norms_and_gradient)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_random_compositions(seed):
    rng = np.random.default_rng(seed)
    # Of a position there is no axis of examples left, and of an example none of positions.
    over = rng.choice([name for name in BETWEEN if name.startswith(("vmap", "map"))])
    others = [name for name in BETWEEN if not name.startswith(("vmap", "map"))]
    between = rng.permutation([over, *rng.choice(others, size=2, replace=False)]).tolist()
    print(between)
    assert_as_written_out((tuple(between),), compare=norms)


def test_float32_agrees_to_its_own_precision():
    nets = [Net((("jit",), ("scan",)), written_out) for written_out in (False, True)]
    variables, x, y = problem(nets[0])
    found = jax.jit(lambda *given: [norms(net, *given, y) for net in nets])(variables, x)
    for norm, twin in zip(*found, strict=True):
        np.testing.assert_allclose(norm, twin, rtol=1e-6)


def test_what_jax_has_traced_before_is_not_used_again():
    net = nn.Sequential([Compact(), nn.Dense(3)])
    variables, x, y = problem(net, (BATCH, WIDTH))
    jitted = jax.jit(net.apply)
    expected = norms_and_gradient(net, variables, x, y)
    jitted(variables, x)  # without marks
    dense = lambda module, method: isinstance(module, nn.Dense)
    for layers in (har_jax.normalization_layers, dense, har_jax.normalization_layers):
        loss_and_norm = har_jax.loss_and_jacobian_norm(jitted, layers)
        r = loss_and_norm(lambda z: zoo.cross_entropy(z, y), variables, x)
        if layers is not dense:
            np.testing.assert_allclose(r.norm, expected[1][0], rtol=1e-5)
        assert len(r.layer_norms) == (2 if layers is dense else 1)


def test_a_stated_axis_counts_those_that_transformations_add():
    class Mapped(nn.Module):
        mapped: bool

        @nn.compact
        def __call__(self, x):
            block = Compact()
            mapped = self.mapped and not self.is_initializing()
            return nn.Dense(3)((jax.vmap(block) if mapped else block)(x))

    variables, x, _ = problem(Mapped(False), (WIDTH, WIDTH))  # as many features as examples
    y = zoo.labels(WIDTH)
    expected = norms_and_gradient(Mapped(False), variables, x, y)
    for axes in (None, 0):
        found = norms_and_gradient(Mapped(True), variables, x, y, tap_axes=axes)
        chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)


class Refused(nn.Module):
    between: object

    @nn.compact
    def __call__(self, x):
        block = Compact()
        x = block(x) if self.is_initializing() else self.between(lambda x: block(x), x)
        return nn.Dense(3)(x)


def custom_jvp(block, x):
    function = jax.custom_jvp(lambda x: block(x))
    function.defjvp(lambda primals, tangents: (block(*primals), tangents[0]))
    return function(x)


class LiftedCustomVjp(nn.Module):
    """As Flax's documentation has it."""

    @nn.compact
    def __call__(self, x):
        forward = lambda block, x: nn.vjp(lambda block, x: block(x), block, x)
        backward = lambda pullback, g: pullback(g)
        function = nn.custom_vjp(lambda block, x: block(x), forward, backward)
        return nn.Dense(3)(function(Compact(), x))


def gradient_in_a_loop(block, x):
    energy = lambda x: jax.lax.scan(lambda c, _: (c + block(x).sum(), None), 0.0, None, 3)[0]
    return jax.grad(energy)(x)


def taken_out_of_a_loop(block, x):
    factor = jnp.sin(x)
    energy = lambda c, factor: (c + (block(x) * factor).sum(), None)
    return jax.grad(lambda factor: jax.lax.scan(lambda c, _: energy(c, factor), 0.0, None, 3)[0])(
        factor
    )


def now(block, x):
    with jax.ensure_compile_time_eval():
        return x + block(np.ones((1, WIDTH), np.float32))


@pytest.mark.parametrize(
    ("between", "message"),
    [
        (
            lambda block, x: jax.lax.while_loop(lambda x: x.sum() < 0, block, x),
            r"Compact_0/LayerNorm_0 is called inside of jax\.lax\.while_loop.*use jax\.lax\.scan",
        ),
        (custom_jvp, r"Compact_0/LayerNorm_0 is .* function with derivatives of its own"),
        (LiftedCustomVjp(), r"Compact_0/LayerNorm_0 is .* function with derivatives of its own"),
        (
            lambda block, x: jax.grad(lambda x: (jax.checkpoint(block)(x) ** 2).sum())(x),
            r"Compact_0/LayerNorm_0 is .* the model itself takes a gradient: drop the checkpoint",
        ),
        (gradient_in_a_loop, r"Compact_0/LayerNorm_0 is .* write that loop out in Python"),
        (taken_out_of_a_loop, r"Compact_0/LayerNorm_0 is .* write that loop out in Python"),
        (now, r"Compact_0/LayerNorm_0 is computed while the model is traced"),
        (
            lambda block, x: jax.shard_map(
                block,
                mesh=jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,)),
                in_specs=jax.sharding.PartitionSpec("data"),
                out_specs=jax.sharding.PartitionSpec("data"),
            )(x),
            r"Compact_0/LayerNorm_0 is .* cannot be taken through.*shard_map.*leave it out",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", " "),
)
def test_what_cannot_be_counted_is_refused_by_name(between, message):
    net = between if isinstance(between, nn.Module) else Refused(between)
    variables, x, y = problem(net, (BATCH, WIDTH))
    with pytest.raises(har_jax.TapError, match=message):
        har_jax.loss_and_jacobian_norm(net.apply)(lambda z: zoo.cross_entropy(z, y), variables, x)


def test_a_gradient_that_the_model_takes_by_itself():
    class Energy(nn.Module):
        @nn.compact
        def __call__(self, x):
            block = Compact()
            if self.is_initializing():
                block(x)
                return x[:, :3]
            h = self.perturb("h", block(x))
            return jax.grad(lambda h: jnp.sum(jnp.tanh(h) ** 2))(h)[:, :3]

    tapped = lambda module, method: isinstance(module, Compact)
    variables, x, y = problem(Energy(), (BATCH, WIDTH))
    r = har_jax.loss_and_jacobian_norm(Energy().apply, tapped)(
        lambda z: zoo.cross_entropy(z, y), variables, x
    )

    def loss(h):
        logits = Energy().apply({**variables, "perturbations": {"h": h}}, x)
        return zoo.cross_entropy(logits, y).sum()

    gradient = jax.grad(loss)(jnp.zeros((BATCH, WIDTH)))
    np.testing.assert_allclose(r.norm, np.linalg.norm(gradient, axis=1), rtol=1e-5)


def test_the_body_of_a_scan_that_flax_traces_twice_is_one_layer():
    class Memory(nn.Module):
        @nn.compact
        def __call__(self, carry, memory):
            return carry + nn.Dense(WIDTH)(nn.LayerNorm(name="norm")(memory)), None

    class Net(nn.Module):
        length: int

        @nn.compact
        def __call__(self, x):
            scan = nn.scan(
                Memory,
                variable_broadcast="params",
                split_rngs={"params": False},
                in_axes=nn.broadcast,
                length=self.length,
            )
            return nn.Dense(3)(nn.LayerNorm(name="last")(scan(name="scan")(x, x)[0]))

    variables, x, y = problem(Net(2), (BATCH, WIDTH))
    for length in (2, 0):
        r = har_jax.loss_and_jacobian_norm(Net(length).apply)(
            lambda z: zoo.cross_entropy(z, y), variables, x
        )
        shapes = {name: norm.shape for name, norm in r.layer_norms.items()}
        assert shapes == {"last": (BATCH,), "scan/norm": (length, BATCH)}


def test_outputs_that_are_no_arrays_come_back_as_they_are():
    program = tapping.trace(
        lambda: {"x": tapping.mark(jnp.ones(2), "mark"), "name": "text", "number": 3}, "context"
    )
    out = program.run([jnp.array([1.0, 2.0])])
    assert (out["name"], out["number"]) == ("text", 3)
    np.testing.assert_array_equal(out["x"], [2.0, 3.0])
