"""Taps in any JAX code: R is that of one example at a time, and elsewhere they are nothing."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax.sharding import AxisType, PartitionSpec

import har_jax
from har_jax import TapError, loss_and_tap_norm, tap
from har_jax.jacobian import REDUCTIONS
from tests import zoo

BATCH, TIME, WIDTH = 4, 2, 3
STRENGTH = np.linspace(0.0, 0.6, BATCH)


def problem(dtype=np.float64):
    rng = np.random.default_rng(0)
    params = {"w": 0.8 * rng.normal(size=(WIDTH, WIDTH)), "out": rng.normal(size=WIDTH)}
    x, y = rng.normal(size=(BATCH, TIME, WIDTH)), rng.normal(size=BATCH)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), (params, x, y))


def block(params, x, mark):
    return jnp.tanh(mark(jnp.sin(x) @ params["w"])) + 0.5 * x


def losses(params, x, y):
    return (jnp.mean(x @ params["out"], axis=-1) - y) ** 2


def scan(f, x, length=3):
    return jax.lax.scan(lambda carry, step: (f(carry), step), x, jnp.arange(length))[0]


def alternating(f, x):
    body = lambda carry, even: (jax.lax.cond(even, f, jnp.cos, carry), None)
    return jax.lax.scan(body, x, jnp.array([True, False, True]))[0]


def by_example(f):
    return lambda x: jax.lax.cond(jnp.sum(x) > 0, f, jnp.cos, x)


def by_example_written_out(f, x):
    positive = jnp.sum(x, axis=(1, 2), keepdims=True) > 0
    return jnp.where(positive, f(x), jnp.cos(x))


def thrice(f, x):
    return f(f(f(x)))


# By name: a transformation of f, the axis of the tap in it, and the same written out.
SINGLE = {
    "none": (lambda f, x: f(x), 0, lambda f, x: f(x)),
    "jit": (lambda f, x: (g := jax.jit(f))(g(x)), 0, lambda f, x: f(f(x))),
    "checkpoint": (lambda f, x: (g := jax.checkpoint(f))(g(x)), 0, lambda f, x: f(f(x))),
    "scan": (scan, -3, thrice),
    "fori_loop": (lambda f, x: jax.lax.fori_loop(0, 3, lambda _, c: f(c), x), 0, thrice),
    "cond": (lambda f, x: jax.lax.cond(x.sum() < 9, f, jnp.cos, x), 0, lambda f, x: f(x)),
    "switch": (lambda f, x: jax.lax.switch(1, [jnp.sin, f, f], x), 0, lambda f, x: f(x)),
    "vmap of examples": (lambda f, x: jax.vmap(f)(x), None, lambda f, x: f(x)),
    "vmap of positions": (lambda f, x: jax.vmap(f, 1, 1)(x), 0, lambda f, x: f(x)),
    "vmap of a name": (
        lambda f, x: jax.vmap(jax.vmap(f), axis_name="examples")(x),
        "examples",
        lambda f, x: f(x),
    ),
    "map of positions": (
        lambda f, x: jax.lax.map(f, x.swapaxes(0, 1)).swapaxes(0, 1),
        0,
        lambda f, x: jnp.stack([f(x[:, i]) for i in range(TIME)], 1),
    ),
}
PAIRS = {
    "jit of scan": (lambda f, x: jax.jit(functools.partial(scan, f))(x), 0, thrice),
    "scan of jit": (lambda f, x: scan(jax.jit(f), x), 0, thrice),
    "checkpoint of scan": (lambda f, x: jax.checkpoint(lambda x: scan(f, x))(x), 0, thrice),
    "scan of checkpoint": (lambda f, x: scan(jax.checkpoint(f), x), 0, thrice),
    "cond of scan": (
        lambda f, x: jax.lax.cond(x.sum() < 9, lambda x: scan(f, x), jnp.cos, x),
        0,
        thrice,
    ),
    "scan of cond": (alternating, 0, lambda f, x: f(jnp.cos(f(x)))),
    "vmap of scan": (lambda f, x: jax.vmap(lambda x: scan(f, x))(x), None, thrice),
    "scan of vmap": (lambda f, x: scan(jax.vmap(f), x), None, thrice),
    "vmap of cond": (lambda f, x: jax.vmap(by_example(f))(x), None, by_example_written_out),
    "vmap of vmap of scan": (
        lambda f, x: jax.vmap(jax.vmap(lambda x: scan(f, x)))(x),
        None,
        thrice,
    ),
}


gradient = lambda f, x: jax.grad(lambda x: f(x).sum())(x)
FEW = {name: PAIRS[name] for name in ("scan of checkpoint", "scan of cond", "vmap of scan")}
OWN_GRADIENT = {"jit": SINGLE["jit"], "grad": (gradient, 0, gradient)}


def tapped(cases):
    def fun(params, x, y):
        for name, (transform, axis, _) in cases.items():
            marked = functools.partial(tap, name=name, axis=axis)
            x = transform(functools.partial(block, params, mark=marked), x)
        return losses(params, x, y)

    return fun


def written_out(cases, params, x, y, zeros):
    """Of one example, ``x [1, TIME, WIDTH]``, with something added at every run of a block."""
    for name, (*_, transform) in cases.items():
        given = iter(zeros[name])
        x = transform(lambda x, given=given: block(params, x, lambda h: h + next(given)), x)
    return losses(params, x, y)[0]


def zeros_of(cases, params, x, y):
    """A zero for every run of a block on one example, by name."""
    zeros = {}
    for name, (*_, transform) in cases.items():
        shapes = []
        note = lambda h, shapes=shapes: (shapes.append(h.shape), h)[1]
        jax.eval_shape(lambda x: transform(lambda x: block(params, x, note), x), x)  # noqa: B023
        zeros[name] = [jnp.zeros(shape, x.dtype) for shape in shapes]
    return zeros


def one_at_a_time(cases, derivative, params, x, y, strength):
    """The objective, and the norm of every run of a block, by the gradients of single examples."""

    def one(x, y, strength):
        x = x[None]
        loss = functools.partial(written_out, cases, params, x, y)
        zeros = zeros_of(cases, params, x, y)
        gradients = jax.grad(loss)(zeros)
        norms = jax.tree.map(jnp.linalg.norm, gradients)
        norm = jnp.sqrt(sum(each**2 for each in jax.tree.leaves(norms)))
        objective = loss(zeros) + strength * norm
        if derivative == "first_order":  # the loss where activations are moved, with this gradient
            move = jax.lax.stop_gradient(jax.tree.map(lambda g: strength * g / norm, gradients))
            moved = loss(move)
            objective = jax.lax.stop_gradient(objective - moved) + moved
        return objective, norms, norm

    objective, norms, norm = jax.vmap(one)(x, y, strength)
    return objective.sum(), (norms, norm)


def at_the_taps(cases, derivative, params, x, y, strength):
    r = loss_and_tap_norm(tapped(cases), derivative=derivative)(params, x, y)
    return jnp.sum(r.loss + strength * r.norm), (r.layer_norms, r.norm)


def by_run(layer_norms, name):
    """The norms of the runs of one name, ``[runs, B]``; of runs that there were."""
    found = [norms for key, norms in layer_norms.items() if key.split("[")[0] == name]
    rows = np.concatenate([np.reshape(norms, (-1, BATCH)) for norms in found])
    return rows[np.any(rows != 0, axis=1)]


@pytest.mark.parametrize(
    ("cases", "derivative"),
    [
        pytest.param(SINGLE, "exact", id="single"),
        pytest.param(PAIRS, "exact", id="pairs", marks=pytest.mark.slow),
        pytest.param(FEW, "first_order", id="pairs to first order"),
        pytest.param(OWN_GRADIENT, "exact", id="its own gradient"),
    ],
)
@pytest.mark.usefixtures("wide")
def test_equals_one_example_at_a_time(cases, derivative):
    params, x, y = problem()
    arguments = (params, x, y, STRENGTH)
    (found, (layers, norm)), gradient = jax.jit(
        jax.value_and_grad(functools.partial(at_the_taps, cases, derivative), has_aux=True)
    )(*arguments)
    (expected, (norms, norm_expected)), gradient_expected = jax.jit(
        jax.value_and_grad(functools.partial(one_at_a_time, cases, derivative), has_aux=True)
    )(*arguments)
    close = functools.partial(chex.assert_trees_all_close, rtol=1e-10, atol=1e-13)
    for name in cases:
        runs = np.stack(norms[name])
        assert np.all(np.any(runs != 0, axis=1)), f"{name} tells nothing"
        np.testing.assert_allclose(by_run(layers, name), runs, rtol=1e-10, err_msg=name)
    close(norm, norm_expected)
    close(found, expected)
    close(gradient, gradient_expected)


def inlined(x, mark):
    """The mark stands in the outermost code, and JAX traces the function around it once."""
    return jnp.tanh(jax.jit(lambda x: mark(x, "h"), inline=True)(x)).sum(axis=1)


def with_own_derivatives(x, mark):
    """Forward mode, whose values are the same for all the tangents that JAX maps."""

    def one(x):
        energy = lambda x: jnp.sum(jnp.tanh(mark(jnp.sin(x), "h", axis=None)) ** 3)
        return jnp.trace(jax.hessian(energy)(x)) + jnp.sum(jax.jacfwd(energy)(x) ** 2)

    return jax.vmap(one)(x)


def through_mutable_arrays(x, mark):
    kept = jax.new_ref(jnp.zeros_like(x))
    kept[...] = jnp.sin(mark(x, "h"))
    return kept[...].sum(axis=1) ** 2


def names_that_look_like_numbers(x, mark):
    for name in ("h", "h", "h[0]", "h[0]", "h[0][1]", "h[2]"):
        x = jnp.tanh(mark(jnp.sin(x), name)) + 0.5 * x
    return x.sum(axis=1)


@pytest.mark.parametrize(
    "fun",
    [inlined, with_own_derivatives, through_mutable_arrays, names_that_look_like_numbers],
    ids=lambda f: f.__name__,
)
@pytest.mark.usefixtures("wide")
def test_equals_zeros_added_by_hand(fun):
    x = problem()[1][:, 0]
    norm = lambda x: loss_and_tap_norm(lambda x: fun(x, tap))(x).norm

    def runs():
        made = []
        note = lambda h, *_, **__: (made.append(h.shape), h)[1]
        jax.eval_shape(lambda x: fun(x, note), x[:1])
        return made

    @jax.jit
    def expected(x):
        def one(x):
            def loss(zeros):
                left = iter(zeros)
                return fun(x[None], lambda h, *_, **__: h + next(left))[0]

            gradients = jax.grad(loss)([jnp.zeros(shape) for shape in runs()])
            return jnp.sqrt(sum(jnp.sum(g**2) for g in gradients))

        return jax.vmap(one)(x)

    for _ in range(2):  # once more, with what JAX has kept
        np.testing.assert_allclose(jax.jit(norm)(x), expected(x), rtol=1e-10)
    found, wanted = (jax.jit(jax.grad(lambda x, f=f: f(x).sum()))(x) for f in (norm, expected))
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


def network(params, x, y):
    """A tap of its own, one in a loop and one under jax.vmap over examples."""
    x = block(params, x, lambda h: tap(h, "first"))
    x = scan(lambda x: block(params, x, lambda h: tap(h, "loop")), x, 2)
    x = jax.vmap(lambda x: block(params, x, lambda h: tap(h, "mapped", axis=None)))(x)
    return losses(params, x, y), {"x": x, "name": "text"}


def of_network(params, x, y):
    """The gradient of an objective, and R."""

    def objective(params):
        r = loss_and_tap_norm(lambda *given: network(*given)[0])(params, x, y)
        return jnp.sum(r.loss + 0.3 * r.norm), r.norm

    return jax.grad(objective, has_aux=True)(params)


def in_microbatches(params, x, y):
    def body(total, rows):
        gradient, norm = of_network(params, *rows)
        return jax.tree.map(jnp.add, total, gradient), norm

    split = lambda array: array.reshape(2, -1, *array.shape[1:])
    zeros = jax.tree.map(jnp.zeros_like, params)
    gradient, norms = jax.lax.scan(body, zeros, (split(x), split(y)))
    return gradient, norms.reshape(-1)


def over_seeds(params, x, y):
    stacked = jax.tree.map(lambda leaf: jnp.stack([2 * leaf, leaf]), params)
    found = jax.vmap(of_network, (0, None, None))(stacked, x, y)
    return jax.tree.map(lambda leaf: leaf[1], found)


def by_pmap(params, x, y):
    step = lambda x, y: (lambda g, norm: (jax.lax.psum(g, "data"), norm))(*of_network(params, x, y))
    split = lambda array: array.reshape(2, -1, *array.shape[1:])
    gradient, norms = jax.pmap(step, axis_name="data")(split(x), split(y))
    return jax.tree.map(lambda leaf: leaf[0], gradient), norms.reshape(-1)


def by_shard_map(params, x, y):
    mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
    rows, whole = PartitionSpec("data"), PartitionSpec()
    mapped = jax.shard_map(
        of_network, mesh=mesh, in_specs=(whole, rows, rows), out_specs=(whole, rows)
    )
    return jax.jit(mapped)(params, x, y)


@pytest.fixture(scope="module")
def plainly():
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(of_network)(*problem()))


@pytest.mark.parametrize(
    "around", [in_microbatches, over_seeds, by_pmap, by_shard_map], ids=lambda f: f.__name__
)
@pytest.mark.usefixtures("wide")
def test_inside_of_other_transformations(around, plainly):
    around = jax.jit(around) if around in (in_microbatches, over_seeds) else around
    chex.assert_trees_all_close(around(*problem()), plainly, rtol=1e-10, atol=1e-13)


def test_what_it_returns():
    arguments = problem(np.float32)

    @jax.jit
    def both(params, x, y):
        results = [
            loss_and_tap_norm(network, has_aux=True, reduction=reduction)(params, x, y=y)
            for reduction in REDUCTIONS
        ]
        assert [r.aux.pop("name") for r in results] == ["text", "text"]
        losses, aux = network(params, x, y)
        return results, losses, aux["x"]

    (r, sums), losses, x = both(*arguments)
    np.testing.assert_allclose(r.loss, losses, rtol=1e-6)
    np.testing.assert_allclose(r.aux["x"], x, rtol=1e-6)
    shapes = {name: norms.shape for name, norms in r.layer_norms.items()}
    assert shapes == {"first": (BATCH,), "loop": (2, BATCH), "mapped": (BATCH,)}
    total = sum(norms.reshape(-1, BATCH).sum(axis=0) for norms in r.layer_norms.values())
    np.testing.assert_allclose(sums.norm, total, rtol=1e-6)


def unmarked(x):
    return x


def everywhere(mark):
    """A function with marks in and around everything that JAX transforms, and under it all."""

    @jax.custom_vjp
    def custom(x):
        return mark(jnp.sin(x))

    custom.defvjp(lambda x: (mark(jnp.sin(x)), x), lambda x, g: (g * mark(jnp.cos(x)),))

    def fun(x):
        inner = lambda x: custom(mark(x) * 2)
        x = jax.lax.cond(jnp.abs(x).sum() > 0, jax.checkpoint(inner), mark, jax.vmap(inner)(x))
        return scan(jax.jit(inner), mark(x))

    def all_of_it(x):
        mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
        rows = PartitionSpec("data")
        found = jax.vjp(fun, x)[1](jnp.ones_like(x))[0] + jax.vmap(fun)(x) + scan(fun, x)
        found += jax.lax.while_loop(lambda x: jnp.abs(x).sum() > 1e6, fun, x)
        return found + jax.shard_map(fun, mesh=mesh, in_specs=rows, out_specs=rows)(x)

    return fun, all_of_it


def test_elsewhere_it_is_nothing():
    x = jnp.linspace(-2.0, 2.0, 12).reshape(2, 2, 3)
    (one, all_of_one), (other, all_of_other) = everywhere(tap), everywhere(unmarked)
    with pytest.raises(TapError):  # JAX has traced it with marks before it does without
        loss_and_tap_norm(lambda x: one(x)[:, 0, 0])(x)
    found, expected = (jax.jit(f).lower(x) for f in (all_of_one, all_of_other))
    np.testing.assert_array_equal(found.compile()(x), expected.compile()(x))
    assert found.as_text() == expected.as_text()
    np.testing.assert_array_equal(jax.pmap(one)(x), jax.pmap(other)(x))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "complex64"])
def test_of_any_type_that_has_a_gradient(dtype):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, BATCH, WIDTH)) + 1j * rng.normal(size=(2, BATCH, WIDTH))
    x, w = (jnp.asarray(a if dtype == "complex64" else a.real).astype(dtype) for a in (x, w))
    assert tap(x) is x
    r = loss_and_tap_norm(lambda x: jnp.sum((tap(x) * w).real, axis=1).astype(jnp.float32))(x)
    np.testing.assert_allclose(r.norm, np.linalg.norm(np.asarray(w, "complex64"), axis=1), 1e-6)
    assert r.norm.dtype == np.float32


@jax.custom_jvp
def sine(x):
    return jnp.sin(x)


sine.defjvp(lambda x, t: (sine(*x), jnp.cos(*x) * t[0]))


@jax.custom_vjp
def tanh(x):
    return jnp.tanh(x)


tanh.defvjp(lambda x: (jnp.tanh(x), x), lambda x, g: (g * (1 - jnp.tanh(x) ** 2),))


def test_beside_functions_with_derivatives_of_their_own():
    params, x, y = problem(np.float32)

    def fun(sine, tanh):
        body = lambda x: jax.jit(sine)(tap(tanh(x) @ params["w"]))
        return lambda x: losses(params, sine(scan(body, tanh(tap(x)))), y)

    both = [loss_and_tap_norm(fun(*f)) for f in ((sine, tanh), (jnp.sin, jnp.tanh))]
    found, expected = jax.jit(lambda x: [f(x) for f in both])(x)
    chex.assert_trees_all_close(found, expected, rtol=1e-5)


def test_a_rule_that_needs_values_of_another_time_is_refused():
    def fun(x, jit):
        scale = jnp.exp(x[0, 0])
        scaled = jax.custom_vjp(lambda x: x * scale)
        scaled.defvjp(lambda x: (x * scale, None), lambda _, g: (g * scale,))
        return scaled(jit(tap)(jnp.sin(x))).sum(axis=1)

    x = jnp.ones((2, 3))
    r = loss_and_tap_norm(lambda x: fun(x, lambda f: f))(x)
    np.testing.assert_allclose(r.norm, np.exp(1) * np.sqrt(3), rtol=1e-6)
    with pytest.raises(TapError, match=r"closes over computed values.* give them to that"):
        loss_and_tap_norm(lambda x: fun(x, jax.jit))(x)


def inside(function):
    """A mark inside of something, with a loss behind it."""
    return lambda x: function(x).sum(axis=1)


def custom_vjp(x):
    function = jax.custom_vjp(tap)
    function.defvjp(lambda x: (tap(x), None), lambda _, g: (g,))
    return function(x)


def custom_jvp(x):
    function = jax.custom_jvp(lambda x: tap(x, "inner"))
    function.defjvp(lambda x, t: (x[0], t[0]))
    return jax.jit(function)(x)


def unused_in_a_loop(x):
    def body(x, _):
        tap(x, "unused")
        return jnp.sin(x), None

    return jax.lax.scan(body, tap(x), None, length=2)[0]


def dropped_by_a_loop(x):
    def body(carry, _):
        x, aside = carry
        return (jnp.sin(x), tap(aside, "aside")), tap(x, "stacked")

    (x, _), _ = jax.lax.scan(body, (tap(x), x), None, length=2)
    return x


def used_for_aux_only(x):
    return tap(x).sum(axis=1), jax.jit(lambda x: tap(x, "aside"))(x)


def over_features(x, **options):
    return jax.vmap(lambda x: tap(x, **options), 1, 1, axis_name="features")(x)


def now(x):
    with jax.ensure_compile_time_eval():
        return x + tap(np.ones((1, 3), np.float32))


SQUARE = 3
ROWS = 2


@pytest.mark.parametrize(
    ("fun", "rows", "message"),
    [
        (inside(jnp.sin), ROWS, r"runs no tap: R would be zero\. Go on with har_jax\.tap\(x\)"),
        (inside(lambda x: (tap(x), x)[1]), ROWS, r"losses do not depend on the tap 'tap', whose"),
        (inside(unused_in_a_loop), ROWS, r"losses do not depend on the tap 'unused', whose norm"),
        (inside(dropped_by_a_loop), ROWS, r"losses do not depend on the tap '(aside|stacked)'"),
        (used_for_aux_only, ROWS, r"losses do not depend on the tap 'aside'.* take the tap out"),
        (
            inside(lambda x: jax.lax.while_loop(lambda x: x.sum() < 0, tap, x)),
            ROWS,
            r"the tap 'tap' is called inside of jax\.lax\.while_loop.* or take the tap out",
        ),
        (inside(custom_vjp), ROWS, r"the tap 'tap' is .* derivatives of its own.*: take the tap"),
        (inside(custom_jvp), ROWS, r"the tap 'inner' is called inside .* derivatives of its own"),
        (inside(jax.jit(jax.pmap(tap))), ROWS, r"the tap 'tap' is .* R cannot be taken through"),
        (inside(now), ROWS, r"the tap 'tap' is computed while the model is traced"),
        (
            inside(lambda x: tap(x, "h", axis=1)),
            ROWS,
            r"the tap 'h', axis=1, has 3 entries there, of its shape \[2, 3\], and there are 2 los",
        ),
        (
            inside(lambda x: jax.lax.map(lambda x: tap(x, axis=None), x)),
            ROWS,
            r"the tap 'tap', axis=None, is not inside of a jax\.vmap, and there are 2 losses: map",
        ),
        (
            inside(lambda x: over_features(x, axis=None)),
            ROWS,
            r"the tap 'tap', axis=None, is inside of jax\.vmap of 3 rows, and there are 2 losses",
        ),
        (
            inside(lambda x: over_features(x, axis="features")),
            ROWS,
            r"axis='features', is inside of a jax\.vmap of that name with 3 rows, .* are 2 losses",
        ),
        (
            inside(lambda x: over_features(x, axis="examples")),
            ROWS,
            r"axis='examples', is inside of jax\.vmap of 3 rows, and there are 2 losses",
        ),
        (
            inside(over_features),
            SQUARE,
            r"axis=0, is inside of a jax\.vmap of 3 rows, and has an axis of 3 entries.*axis=None",
        ),
        (
            inside(jax.vmap(jax.vmap(lambda x: tap(x, axis=None)))),
            SQUARE,
            r"of jax\.vmap of 3, 3 rows, of which more than one .* 3 examples: .* an axis_name of",
        ),
        (
            inside(jax.vmap(lambda x: tap(x.sum()) + x)),
            ROWS,
            r"the tap 'tap' has axis=0 and an array of shape \[\]: say .* over them axis=None",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused_by_name(fun, rows, message):
    has_aux = fun is used_for_aux_only
    with pytest.raises(TapError, match=message):
        loss_and_tap_norm(fun, has_aux=has_aux)(jnp.ones((rows, 3)))


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (jnp.arange(3), {}, r"the tap 'tap' takes one floating array, and is given int32\[3\]"),
        (1.0, {"name": "h"}, r"the tap 'h' takes one floating array, and is given a float"),
        ({"x": jnp.ones(2)}, {}, r"given a dict: tap the arrays of a tree one by one"),
        (jnp.ones(3), {"name": 1}, r"the name of a tap is text; it is 1"),
        (jnp.ones(3), {"axis": 0.5}, r"float"),
    ],
)
def test_wrong_arguments_of_a_tap(x, options, message):
    with pytest.raises(TypeError, match=message):
        tap(x, **options)


@pytest.mark.parametrize(
    ("fun", "options", "message"),
    [
        (lambda x: tap(x).sum(), {}, r"one floating number per example, shape \[B\]"),
        (lambda x: (tap(x).sum(1), 0), {}, r"it is a tuple"),
        (lambda x: tap(x).sum(1), {"has_aux": True}, r"with has_aux=True .* returns a pair"),
        (lambda x: tap(x).sum(1), {"reduction": "mean"}, r"reduction='mean' is unknown"),
        (lambda x: tap(x).sum(1), {"derivative": "second"}, r"derivative='second' is unknown"),
    ],
)
def test_wrong_arguments_of_the_transformation(fun, options, message):
    with pytest.raises(ValueError, match=message):
        loss_and_tap_norm(fun, **options)(jnp.ones((2, 3)))
    with pytest.raises(TypeError, match="is no function"):
        loss_and_tap_norm(jnp.ones(3))


def test_one_inside_of_another_has_its_own_taps():
    params, x, y = problem(np.float32)
    norm = lambda x: loss_and_tap_norm(lambda x: losses(params, tap(x, "inner") ** 2, y))(x).norm
    r = jax.jit(loss_and_tap_norm(lambda x: norm(tap(x, "outer"))))(x)
    assert list(r.layer_norms) == ["outer"]
    gradient = jax.jit(jax.grad(lambda x: norm(x).sum()))(x)
    np.testing.assert_allclose(r.norm, np.linalg.norm(gradient.reshape(BATCH, -1), axis=1), 1e-5)
    np.testing.assert_allclose(r.loss, norm(x), rtol=1e-5)


def test_what_jax_has_traced_before_is_not_used_again():
    jitted = jax.jit(lambda x: tap(jnp.sin(x), "jit"))
    checkpoint = jax.checkpoint(lambda x: tap(jnp.sin(x), "checkpoint"))
    body = lambda x, _: (tap(jnp.sin(x), "scan"), None)
    branch = lambda x: tap(jnp.sin(x), "cond")

    @jax.jit
    def fun(x):
        x = jax.lax.scan(body, checkpoint(jitted(x)), None, length=2)[0]
        return jax.lax.cond(x.sum() < 9, branch, jnp.cos, x).sum(axis=1)

    x = jnp.linspace(0.0, 1.0, 6).reshape(2, 3)
    expected = fun(x)
    r = loss_and_tap_norm(fun)(x)
    assert sorted(r.layer_norms) == ["checkpoint", "cond", "jit", "scan"]
    np.testing.assert_allclose(r.loss, expected, rtol=1e-6)


class Marked(nn.Module):
    """A norm whose output a tap marks too, or not."""

    tapped: bool

    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm(epsilon=1e-3)(nn.Dense(4)(x))
        return nn.Dense(3)(jnp.tanh(tap(x, "h") if self.tapped else x))


def test_beside_the_layers_of_linen():
    x, y = zoo.inputs((BATCH, 5)), zoo.labels(BATCH)
    variables = zoo.variables(Marked(True), x)
    cross_entropy = lambda logits: zoo.cross_entropy(logits, y)

    @jax.jit
    def all_of_them(x):
        of_linen = [
            har_jax.loss_and_jacobian_norm(Marked(tapped).apply)(cross_entropy, variables, x)
            for tapped in (True, False)
        ]
        losses = lambda x: cross_entropy(Marked(True).apply(variables, x))
        loss_and_norm = har_jax.loss_and_jacobian_norm(Marked(True).apply)
        inside = lambda x: loss_and_norm(cross_entropy, variables, tap(x, "x")).norm
        return of_linen, loss_and_tap_norm(losses)(x), loss_and_tap_norm(inside)(x)

    (tapped, untapped), of_tap, outside = all_of_them(x)
    chex.assert_trees_all_equal(tapped, untapped)
    assert (list(tapped.layer_norms), list(of_tap.layer_norms)) == (["LayerNorm_0"], ["h"])
    np.testing.assert_allclose(of_tap.norm, tapped.norm, rtol=1e-6)
    assert list(outside.layer_norms) == ["x"]
    np.testing.assert_allclose(outside.loss, tapped.norm, rtol=1e-6)
