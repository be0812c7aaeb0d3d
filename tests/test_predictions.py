"""What --stage=predict says of every example is said by the method's own predict."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from har_jax.data import Examples
from har_jax.linen.layers import normalization_layers
from har_jax.losses import cross_entropy
from har_jax.methods import erm
from har_jax.train.evaluate import ByExample
from har_jax.train.mesh import data_mesh
from har_jax.train.predictions import describe, to_table

NAMES = ("a", "b", "c")


class Network(nn.Module):
    @nn.compact
    def __call__(self, inputs, *, train):
        hidden = nn.LayerNorm()(nn.Dense(4)(inputs))
        return nn.Dense(3)(jnp.tanh(hidden))


MODEL = Network()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = np.array([0, 1, 2, 1, 0], np.int32)
    examples = Examples(rng.normal(size=(5, 6)).astype(np.float32), labels)
    method = erm(MODEL, optax.sgd(0.1), preprocess=lambda inputs: 2 * inputs)
    state = method.init(jax.random.key(0), {"inputs": jnp.asarray(examples.inputs)})
    other = method.init(jax.random.key(1), {"inputs": jnp.asarray(examples.inputs)})
    return method, state.variables, other.variables, examples


def said(predict, variables, examples, mesh=None, **options):
    fun = describe(predict, normalization_layers, "root_sum_square", **options)
    return ByExample(fun, 4, mesh)(variables, examples)


def by_hand(predict_from, activations, labels):
    """Losses, and the norms of their gradients by the activations, one example after the other."""
    loss = lambda h, i: cross_entropy(predict_from(h, i)[None], labels[i : i + 1])[0]
    pairs = [jax.value_and_grad(loss)(h, i) for i, h in enumerate(activations)]
    return (
        np.array([value for value, _ in pairs]),
        np.array([np.linalg.norm(gradient) for _, gradient in pairs]),
    )


def parts_of(variables):
    """What comes before the activations that R is taken at, and what behind."""
    params = variables["params"]
    before = lambda x: x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"]
    norm = lambda x: nn.LayerNorm().apply({"params": params["LayerNorm_0"]}, before(x))
    dense = params["Dense_1"]
    return norm, lambda h: jnp.tanh(h) @ dense["kernel"] + dense["bias"]


def test_it_is_of_the_methods_own_predict(data):
    method, variables, _, examples = data
    norm, behind = parts_of(variables)
    shift = jnp.array([1.0, 0.0, -1.0])
    adjusted = lambda variables, inputs: method.predict(variables, inputs) - shift
    h = norm(2 * examples.inputs)
    for predict, bias in ((method.predict, 0.0), (adjusted, shift)):
        found = said(predict, variables, examples)
        loss, norms = by_hand(lambda h, _, bias=bias: behind(h) - bias, h, examples.labels)
        np.testing.assert_allclose(found["loss"], loss, rtol=1e-5)
        np.testing.assert_allclose(found["norm"], norms, rtol=1e-5)
        logits = np.asarray(behind(h) - bias)
        np.testing.assert_array_equal(found["prediction"], logits.argmax(-1))
        np.testing.assert_allclose(found["probability"], np.asarray(jax.nn.softmax(logits)).max(-1))
        np.testing.assert_allclose(found["label_probability"], np.exp(-loss), rtol=1e-5)


def test_r_is_of_all_networks_that_it_runs(data):
    method, *both, examples = data
    mixed = lambda variables, inputs: sum(method.predict(each, inputs) for each in variables) / 2
    found = said(mixed, tuple(both), examples)
    squares = 0.0
    parts = [parts_of(variables) for variables in both]
    taps = [norm(2 * examples.inputs) for norm, _ in parts]
    for own, (_, behind) in enumerate(parts):
        rest = parts[1 - own][1](taps[1 - own])
        mean = lambda h, i, behind=behind, rest=rest: (behind(h) + rest[i]) / 2
        loss, norms = by_hand(mean, taps[own], examples.labels)
        squares += norms**2
    np.testing.assert_allclose(found["loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(found["norm"], np.sqrt(squares), rtol=1e-5)


def test_it_does_not_depend_on_devices(data):
    method, variables, _, examples = data
    one, two = (
        said(method.predict, variables, examples, data_mesh(jax.devices()[:count]))
        for count in (1, 2)
    )
    for name, values in one.items():
        np.testing.assert_allclose(two[name], values, rtol=1e-6)


def no_layer(variables, inputs):
    return inputs @ variables["params"]["Dense_0"]["kernel"][:, :3]


def in_a_while_loop(variables, inputs):
    body = lambda carry: (carry[0] + 1, MODEL.apply(variables, inputs, train=False))
    return jax.lax.while_loop(lambda carry: carry[0] < 2, body, (0, jnp.zeros((len(inputs), 3))))[1]


def through_the_host(variables, inputs):
    logits = MODEL.apply(variables, inputs, train=False)
    kind = jax.ShapeDtypeStruct(logits.shape, logits.dtype)
    return jax.pure_callback(lambda x: np.asarray(x), kind, logits)


@pytest.mark.parametrize(
    ("predict", "reason"),
    [
        (no_layer, "TapError: the filter `layers` selects no call of the model"),
        (in_a_while_loop, "TapError: LayerNorm_0 is called inside of jax.lax.while_loop"),
        (through_the_host, "ValueError: Pure callbacks do not support JVP"),
    ],
)
def test_what_r_cannot_be_taken_of_has_everything_but_r(data, predict, reason):
    _, variables, _, examples = data
    with pytest.warns(UserWarning, match=r"^own: norm is left empty, .* predict: ") as caught:
        found = said(predict, variables, examples, title="own")
    assert [str(each.message).partition("predict: ")[2][: len(reason)] for each in caught] == [
        reason
    ]
    logits = np.asarray(predict(variables, jnp.asarray(examples.inputs)))
    np.testing.assert_array_equal(found["prediction"], logits.argmax(-1))
    np.testing.assert_allclose(found["loss"], cross_entropy(logits, examples.labels), rtol=1e-5)
    assert "norm" not in found
    table = to_table("test", examples, found, None, NAMES, NAMES).to_pydict()
    assert table["norm"] == [None] * 5
    assert table["label"] == ["a", "b", "c", "b", "a"]
    assert "id" not in table
    named = dataclasses.replace(examples, ids=np.array(["x", "y", "z", "\ud800", "é"]))
    assert to_table("test", named, found, None, NAMES, NAMES)["id"].to_pylist() == [*"xyz?é"]
    np.testing.assert_allclose(table["loss"], found["loss"])


def test_a_predict_that_fails_by_itself_says_so(data):
    _, variables, _, examples = data
    broken = lambda variables, inputs: inputs @ variables["params"]["none"]
    with pytest.raises(KeyError, match="none"):
        said(broken, variables, examples)
