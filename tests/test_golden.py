"""ResNet and objective equal the authors' code: to 1e-6 relative, in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util

import har_jax
from har_jax.models import CifarResNet
from tests import golden

pytestmark = pytest.mark.usefixtures("optimized")

close = functools.partial(np.testing.assert_allclose, rtol=1e-6)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(golden.RESNET8, id=golden.RESNET8.stem),
        pytest.param(golden.RESNET32, id=golden.RESNET32.stem, marks=pytest.mark.slow),
    ],
)
def run(request, optimized):
    path = request.param
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with jax.enable_x64(True):
        yield Run(golden.Golden(path), depth=8 if path == golden.RESNET8 else 32)


class Run:
    """The five-step training run, and what its first step computed."""

    def __init__(self, data, depth):
        self.data = data
        self.model = CifarResNet(num_classes=10, depth=depth)
        params = traverse_util.unflatten_dict(data.tree("param/"))
        params = jax.tree.map(jnp.asarray, params)
        names = data.tree("step0/stats/")
        stats = {path: jnp.full(names[path].shape, float(path[-1] == "var")) for path in names}
        stats = traverse_util.unflatten_dict(stats)
        optimizer = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.1, momentum=0.9))
        opt_state = optimizer.init(params)
        self.trace = []
        for images, labels, weights in zip(data.images, data.labels, data.weights, strict=True):
            (objective, r), gradients = self.objective(params, stats, images, labels, weights)
            if not self.trace:
                self.first, self.gradients = r, gradients
            self.trace.append([r.loss.mean(), (objective - r.loss.mean()) / 10, objective])
            updates, opt_state = optimizer.update(gradients, opt_state, params)
            params = optax.apply_updates(params, updates)
            stats = r.mutated["batch_stats"]
        self.params, self.stats = params, stats

    def unbiased(self, path, statistic, steps):
        """PyTorch's running variance uses n - 1 where Flax's uses n; both start at 1."""
        if path[-1] == "mean":
            return statistic
        side = {"stage2": 16, "stage3": 8}.get(path[0].split("_")[0], 32)
        n = self.data.images.shape[1] * side**2
        start = 0.9**steps
        return start + (statistic - start) * n / (n - 1)

    @functools.partial(jax.jit, static_argnums=0)
    def objective(self, params, stats, images, labels, weights):
        loss_and_norm = har_jax.loss_and_jacobian_norm(
            self.model.apply,
            layers=har_jax.normalization_layers_but_stem,
            reduction="sum_of_norms",
        )
        # The authors differentiate the mean loss: their norms carry a factor 1/B.
        strength = self.data.arrays["reg_weight"] / len(images) * weights

        def objective(params):
            r = loss_and_norm(
                lambda logits: optax.softmax_cross_entropy_with_integer_labels(logits, labels),
                {"params": params, "batch_stats": stats},
                images,
                train=True,
                mutable=["batch_stats"],
            )
            return jnp.mean(r.loss + strength * r.norm), r

        return jax.value_and_grad(objective, has_aux=True)(params)


def test_first_step(run):
    values = run.data.arrays
    close(run.first.outputs, values["step0/logits"])
    close(run.first.loss, values["step0/per_example_loss"])
    layer_norms = np.stack(list(run.first.layer_norms.values()), axis=1)
    close(layer_norms / len(layer_norms), values["step0/layer_norms_of_mean_loss_gradient"])
    close(run.trace[0], [values[f"step0/{key}"] for key in ("mean_loss", "penalty", "objective")])


def test_gradients(run):
    ours = traverse_util.flatten_dict(run.gradients)
    if whole := run.data.tree("step0/grad/"):
        assert whole.keys() == ours.keys()
        for path, theirs in whole.items():  # stored in float32
            close(ours[path], theirs, atol=1e-6 * np.abs(theirs).max())
        return
    norms, dots = run.data.raw("step0/grad_norm/"), run.data.raw("step0/grad_dot_cos/")
    assert norms.keys() == dots.keys() == ours.keys()
    for path in ours:
        flat = golden.to_theirs(ours[path]).ravel()
        close(np.linalg.norm(flat), norms[path])
        close(flat @ np.cos(np.arange(flat.size)), dots[path], atol=1e-6 * norms[path])


def test_running_statistics(run):
    ours = traverse_util.flatten_dict(run.first.mutated["batch_stats"])
    theirs = run.data.tree("step0/stats/")
    assert ours.keys() == theirs.keys()
    for path, value in theirs.items():
        close(run.unbiased(path, ours[path], steps=1), value, atol=1e-12)


def test_trace(run):
    close(run.trace, run.data.arrays["trace"])


def test_logits_after_training(run):
    stats = traverse_util.flatten_dict(run.stats)
    steps = len(run.data.images)
    stats = {path: run.unbiased(path, value, steps) for path, value in stats.items()}
    variables = {"params": run.params, "batch_stats": traverse_util.unflatten_dict(stats)}
    logits = run.model.apply(variables, run.data.images[0], train=False)
    close(logits, run.data.arrays["final/eval_logits"], atol=1e-6)
