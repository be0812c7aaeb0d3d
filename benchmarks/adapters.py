"""HAR's step through each way of saying which activations count, at one architecture.

python -m benchmarks.adapters --rounds=21

Linen's filter, NNX's and ``har_jax.tap`` in a Linen model; convolutions, norms and ReLUs. Steps are
measured in turn, round by round, and compared with Linen's within a round.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import nnx

import har_jax
import har_jax.nnx
from benchmarks.timing import alternate, ratio

WIDTHS = (32, 64, 64, 128)
RATE, STRENGTH = 0.1, 0.1


class LinenNet(nn.Module):
    taps: bool = False

    @nn.compact
    def __call__(self, x, labels=None):
        for width in WIDTHS:
            x = nn.BatchNorm(use_running_average=False)(nn.Conv(width, (3, 3), use_bias=False)(x))
            x = nn.relu(har_jax.tap(x) if self.taps else x)
        return nn.Dense(10)(x.mean((1, 2)))


class NNXNet(nnx.Module):
    def __init__(self, rngs):
        sizes = zip((3, *WIDTHS), WIDTHS, strict=False)
        conv = lambda size: nnx.Conv(*size, (3, 3), use_bias=False, rngs=rngs)
        self.convs = nnx.List([conv(size) for size in sizes])
        self.norms = nnx.List([nnx.BatchNorm(width, rngs=rngs) for width in WIDTHS])
        self.head = nnx.Linear(WIDTHS[-1], 10, rngs=rngs)

    def __call__(self, x):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = nnx.relu(norm(conv(x)))
        return self.head(x.mean((1, 2)))


def steps(images, labels):
    """By name, a step that updates parameters and statistics, run so many times."""
    cross_entropy = lambda logits: optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    mean = lambda r: jnp.mean(r.loss + STRENGTH * r.norm)
    model = LinenNet()
    variables = model.init(jax.random.key(0), images)
    loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)

    @jax.jit
    def linen(variables):
        def objective(params):
            given = {**variables, "params": params}
            r = loss_and_norm(cross_entropy, given, images, mutable=["batch_stats"])
            return mean(r), r.mutated

        return after(variables, *jax.grad(objective, has_aux=True)(variables["params"]))

    @jax.jit
    def taps(variables):
        def losses(params):
            given, options = {**variables, "params": params}, {"mutable": ["batch_stats"]}
            logits, mutated = LinenNet(taps=True).apply(given, images, **options)
            return cross_entropy(logits), mutated

        def objective(params):
            r = har_jax.loss_and_tap_norm(losses, has_aux=True)(params)
            return mean(r), r.aux

        return after(variables, *jax.grad(objective, has_aux=True)(variables["params"]))

    def after(variables, gradient, mutated):
        params = jax.tree.map(lambda p, g: p - RATE * g, variables["params"], gradient)
        return {"params": params, **mutated}

    net, of_nnx = NNXNet(nnx.Rngs(0)), har_jax.nnx.loss_and_jacobian_norm()
    description, state = nnx.split(net)

    @jax.jit
    def through_nnx(state):
        net = nnx.merge(description, state)
        gradient = nnx.grad(lambda net: mean(of_nnx(cross_entropy, net, images)))(net)
        params = jax.tree.map(lambda p, g: p - RATE * g, nnx.state(net, nnx.Param), gradient)
        nnx.update(net, params)
        return nnx.state(net)

    return {"Linen": (linen, variables), "tap": (taps, variables), "NNX": (through_nnx, state)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--batch_size", type=int, default=64)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    images = rng.normal(size=(args.batch_size, 16, 16, 3)).astype(np.float32)
    labels = rng.integers(10, size=args.batch_size)

    def runner(step, state):
        def run(times):
            nonlocal state
            for _ in range(times):
                state = step(state)
            jax.block_until_ready(state)

        return run

    times = alternate({n: runner(*each) for n, each in steps(images, labels).items()}, args.rounds)
    for name, seconds in times.items():
        median, low, high = ratio(seconds, times["Linen"])
        print(f"{name}: {np.median(seconds):.4f} s, {median:.3f} ({low:.3f}-{high:.3f}) of Linen's")


if __name__ == "__main__":
    main()
