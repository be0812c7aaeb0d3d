"""The bidirectional LSTM: padding reaches nothing, R is that of a loop, remat changes nothing."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import har_jax
from har_jax import methods
from har_jax.linen.layers import embeddings_and_recurrent_layers
from har_jax.losses import cross_entropy
from har_jax.models import BiLSTM
from har_jax.models.bilstm import UNKNOWN
from har_jax.models.layers.norm import AXIS
from har_jax.train.mesh import ROWS, WHOLE, data_mesh, map_over

MODEL = BiLSTM(2, vocabulary_size=20, widths=(4, 3), embedding=5)
LENGTHS = (6, 1, 4, 3)
LABELS = jnp.array([0, 1, 1, 0])


@pytest.fixture(scope="module")
def ids():
    rows = np.random.default_rng(0).integers(1, 20, (4, 6))
    return jnp.asarray(np.where(np.arange(6) < np.array(LENGTHS)[:, None], rows, 0), jnp.int32)


@pytest.fixture(scope="module")
def variables(ids):
    return jax.jit(functools.partial(MODEL.init, train=False))(jax.random.key(0), ids)


@jax.jit
def logits_of(variables, ids):
    return MODEL.apply(variables, ids, train=False)


@functools.partial(jax.jit, static_argnames="reduction")
def loss_and_norm(variables, ids, reduction="root_sum_square"):
    transformed = har_jax.loss_and_jacobian_norm(
        MODEL.apply, embeddings_and_recurrent_layers, reduction=reduction
    )
    cross_entropies = lambda logits: cross_entropy(logits, LABELS[: len(ids)])
    return transformed(cross_entropies, variables, ids, train=False)


@pytest.mark.slow
def test_further_padding_changes_nothing(ids, variables):
    @jax.jit
    def everything(ids):
        def objective(params):
            r = loss_and_norm({"params": params}, ids, reduction="sum_of_norms")
            return jnp.mean(r.loss + r.norm), r

        gradient, r = jax.grad(objective, has_aux=True)(variables["params"])
        return gradient, r.outputs, r.loss, r.norm, r.layer_norms

    padded = jnp.pad(ids, ((0, 0), (0, 9)))
    chex.assert_trees_all_close(everything(padded), everything(ids), rtol=1e-6, atol=1e-6)


def test_a_row_does_not_depend_on_the_others_nor_on_what_is_in_padding(ids, variables):
    whole = loss_and_norm(variables, ids)
    for row in (1, 2):
        length = LENGTHS[row]
        alone = logits_of(variables, ids[row : row + 1, :length])
        np.testing.assert_allclose(whole.outputs[row], alone[0], rtol=1e-6, atol=1e-6)


def test_r_is_that_of_perturbed_activations(ids, variables):
    r = loss_and_norm(variables, ids)
    assert set(r.layer_norms) == {"embedding", "layer1", "layer2"}
    np.testing.assert_allclose(
        r.norm**2, sum(norm**2 for norm in r.layer_norms.values()), rtol=1e-5
    )
    # Of the embedding: by the table, in which every word of a text of different words is a row.
    params = variables["params"]
    text = jnp.arange(2, 8)[None]

    def loss(table):
        changed = {**params, "embedding": {"embedding": table}}
        logits = logits_of({"params": changed}, text)
        return cross_entropy(logits, LABELS[:1])[0]

    expected = jnp.linalg.norm(jax.grad(loss)(params["embedding"]["embedding"]))
    found = loss_and_norm(variables, text).layer_norms["embedding"][0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("bad", [-1, 20, 10**6])
def test_ids_out_of_the_vocabulary_are_unknown_words(ids, variables, bad):
    logits = logits_of(variables, ids.at[0, 2].set(bad))
    unknown = logits_of(variables, ids.at[0, 2].set(UNKNOWN))
    np.testing.assert_array_equal(logits, unknown)


def test_a_row_of_padding_is_finite(variables):
    r = loss_and_norm(variables, jnp.zeros((1, 6), jnp.int32))
    assert jnp.isfinite(r.loss).all()
    assert jnp.isfinite(r.norm).all()


def method_of(model, **options):
    layers = embeddings_and_recurrent_layers
    return methods.har(model.clone(dropout=0.0), optax.sgd(0.5), layers=layers, **options)


@pytest.fixture(scope="module")
def batch(ids):
    return {"inputs": ids, "labels": LABELS, "strength": jnp.array([0.1, 0.2, 0.0, 0.4])}


@pytest.fixture(scope="module")
def state(batch):
    return jax.jit(method_of(MODEL).init)(jax.random.key(0), batch)


@pytest.fixture(scope="module")
def stepped(state, batch):
    """The parameters after one step."""
    return jax.jit(method_of(MODEL).step)(state, batch, jax.random.key(1))[0].params


@pytest.mark.slow
def test_remat_over_time_changes_nothing(state, batch, stepped):
    remat = method_of(MODEL.clone(remat=True))
    after, _ = jax.jit(remat.step)(state, batch, jax.random.key(1))
    chex.assert_trees_all_close(after.params, stepped, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_batch_that_is_split_over_devices_makes_the_same_step(state, batch, stepped):
    mesh = data_mesh(jax.devices()[:2])
    step = map_over(mesh, method_of(MODEL, axis=AXIS).step, (WHOLE, ROWS, WHOLE), WHOLE)
    after, _ = jax.jit(step)(state, batch, jax.random.key(1))
    chex.assert_trees_all_close(after.params, stepped, rtol=1e-5, atol=1e-6)


def test_dropout_is_drawn_in_training_only(ids, variables):
    @jax.jit
    def in_training(key):
        return MODEL.apply(variables, ids, train=True, rngs={"dropout": key})

    one, other = in_training(jax.random.key(0)), in_training(jax.random.key(1))
    assert not np.allclose(one, other)
    assert not np.allclose(one, logits_of(variables, ids))
