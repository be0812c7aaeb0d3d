"""The cosine classifier: the values of its authors' code, and what networks make of it."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from har_jax.models import NETWORKS
from har_jax.models.layers.classifier import CosineClassifier, classifier

KEY = jax.random.key(0)
SMALL = {
    "convnet": {"widths": (8,)},
    "cifar_resnet": {"depth": 8, "widths": (4, 4, 4)},
    "imagenet_resnet": {"depth": 14, "width": 2},
    "inception_resnet_v2": {"repeats": (0, 0, 0)},
    "bilstm": {"vocabulary_size": 9, "widths": (4,), "embedding": 3},
}


def test_cosines_and_the_gradients_of_ldam_are_those_of_its_authors(wide, golden):
    g = golden("ldam_drw")
    features, weight, labels = g["normed_linear/features"], g["normed_linear/weight"], g["labels"]
    cosines = lambda features, weight: CosineClassifier(weight.shape[1], 1.0).apply(
        {"params": {"kernel": weight}}, features
    )
    margins = jax.nn.one_hot(labels, weight.shape[1]) * g["margins"]

    def ldam(features, weight):
        logits = g["s"] * (cosines(features, weight) - margins)
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * (margins > 0), axis=1))

    logits = cosines(features, weight)
    np.testing.assert_allclose(logits, g["normed_linear/logits"], rtol=0, atol=1e-10)
    scalar, (for_features, for_weight) = jax.value_and_grad(ldam, (0, 1))(features, weight)
    np.testing.assert_allclose(scalar, g["normed_linear/ldam_scalar"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(for_weight, g["normed_linear/grad_weight"], rtol=0, atol=1e-10)
    zero = ~np.any(features, axis=1)
    assert zero[0]
    expected = np.where(zero[:, None], 0, g["normed_linear/grad_features"])  # theirs is 1e12 there
    np.testing.assert_allclose(for_features, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("where", ["features", "weights"])
def test_zeros_have_logits_of_zero_and_no_gradient(where):
    features, kernel = jnp.ones((2, 3)), jnp.ones((3, 4))
    if where == "features":
        features = features.at[0].set(0)
    else:
        kernel = kernel.at[:, 0].set(0)

    def total(features, kernel):
        logits = CosineClassifier(4, 5.0).apply({"params": {"kernel": kernel}}, features)
        return jnp.sum(logits * jnp.arange(8.0).reshape(2, 4)), logits

    gradients, logits = jax.grad(total, (0, 1), has_aux=True)(features, kernel)
    chex.assert_tree_all_finite(gradients)
    zero = (0, slice(None)) if where == "features" else (slice(None), 0)
    assert not np.any(logits[zero])
    assert not np.any(gradients[0][0] if where == "features" else gradients[1][:, 0])
    second = jax.grad(lambda x: jnp.sum(jax.grad(total, has_aux=True)(x, kernel)[0] ** 2))(features)
    chex.assert_tree_all_finite(second)


def test_cosines_are_computed_in_float32_and_go_by_the_direction_alone():
    features = jnp.asarray(np.random.default_rng(0).normal(size=(4, 64)), jnp.bfloat16)
    model = CosineClassifier(3, 7.0, dtype=jnp.bfloat16)
    variables = model.init(KEY, features)
    logits = model.apply(variables, features)
    assert logits.dtype == variables["params"]["kernel"].dtype == jnp.float32
    x = np.asarray(features, np.float64)
    w = np.asarray(variables["params"]["kernel"], np.float64)
    expected = 7 * (x @ w) / np.linalg.norm(x, axis=1)[:, None] / np.linalg.norm(w, axis=0)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)
    longer = {"params": {"kernel": variables["params"]["kernel"] * jnp.array([1.0, 8.0, 0.5])}}
    np.testing.assert_allclose(model.apply(longer, 4 * features), logits, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_a_linear_or_a_cosine_classifier(name):
    texts = getattr(NETWORKS[name], "reads", "images") == "texts"
    inputs = jnp.ones((2, 5), jnp.int32) if texts else jnp.ones((2, 75, 75, 1))
    linear = NETWORKS[name](num_classes=3, **SMALL[name])
    shapes = lambda model: jax.eval_shape(lambda: model.init(KEY, inputs, train=False)["params"])
    before, after = shapes(linear), shapes(linear.clone(cosine=20.0))
    (old,) = [key for key in before if key in ("classifier", "Dense_0")]
    (new,) = [key for key in after if key in ("classifier", "CosineClassifier_0")]
    assert set(before[old]) == {"kernel", "bias"}
    assert set(after[new]) == {"kernel"}
    assert before[old]["kernel"].shape == after[new]["kernel"].shape
    rest = lambda params, own: {key: of for key, of in params.items() if key != own}
    chex.assert_trees_all_equal_shapes(rest(before, old), rest(after, new))
    logits = jax.eval_shape(
        lambda: linear.clone(cosine=20.0).init_with_output(KEY, inputs, train=False)[0]
    )
    assert logits.shape == (2, 3)


def test_none_is_flax_s_own_and_a_factor_has_to_be_positive():
    features = jnp.ones((2, 4))
    own = nn.Dense(3).init(KEY, features)
    chex.assert_trees_all_equal(classifier(3, None).init(KEY, features), own)
    with pytest.raises(ValueError, match="cosine=0 must be positive, or None"):
        classifier(3, 0)
