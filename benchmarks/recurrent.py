"""What a HAR step of the bidirectional LSTM costs beside one of plain training, in time and memory.

python -m benchmarks.recurrent [--width=256] [--length=256] [--batch_size=64] [--rounds=5]

Random ids; a row for plain training and for HAR, each as it is and with `remat`, and for HAR of
first order. Time is the median of the rounds, in which all take turns.
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.timing import alternate, ratio
from har_jax import methods
from har_jax.linen.layers import embeddings_and_recurrent_layers
from har_jax.models import BiLSTM
from har_jax.train.compilation import compiler_options

VOCABULARY = 20_000
FIRST_ORDER = "HAR, first order"


def compiled(name: str, options: argparse.Namespace, *, remat: bool = False):
    """The compiled step, and what to call it with."""
    model = BiLSTM(2, VOCABULARY, widths=(options.width,) * 2, remat=remat)
    optimizer = optax.adam(1e-3)
    if name == "ERM":
        method = methods.erm(model, optimizer)
    else:
        layers = embeddings_and_recurrent_layers
        method = methods.har(
            model,
            optimizer,
            layers=layers,
            reduction="sum_of_norms",
            derivative="first_order" if name == FIRST_ORDER else "exact",
        )
    rng = np.random.default_rng(0)
    batch = {
        "inputs": jnp.asarray(
            rng.integers(2, VOCABULARY, (options.batch_size, options.length)), jnp.int32
        ),
        "labels": jnp.asarray(rng.integers(0, 2, options.batch_size), jnp.int32),
        "strength": jnp.full(options.batch_size, 0.1),
    }
    key = jax.random.key(0)
    arguments = jax.jit(method.init)(key, batch), batch, key
    traced = jax.jit(method.step).trace(*arguments)
    return traced.lower().compile(compiler_options(traced.jaxpr)), arguments


def repeat(step: Callable[..., Any], arguments: Sequence[Any], times: int) -> None:
    """Makes a step so many times, and waits for it."""
    for _ in range(times):
        result = step(*arguments)
    jax.block_until_ready(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    steps = {
        f"{name}{', remat' if remat else ''}": compiled(name, options, remat=remat)
        for remat in (False, True)
        for name in ("ERM", "HAR")
    }
    steps[FIRST_ORDER] = compiled(FIRST_ORDER, options)
    memory = {name: step.memory_analysis().temp_size_in_bytes for name, (step, _) in steps.items()}
    runs = {name: functools.partial(repeat, *step) for name, step in steps.items()}
    seconds = alternate(runs, options.rounds)
    print("| step | median, s | of ERM's (quartiles) | temporary memory, MiB | of ERM's |")
    print("| --- | --- | --- | --- | --- |")
    for name, times in seconds.items():
        middle, low, high = ratio(times, seconds["ERM"])
        print(
            f"| {name} | {np.median(times):.3f} | {middle:.2f} ({low:.2f}-{high:.2f}) "
            f"| {memory[name] / 2**20:.0f} | {memory[name] / memory['ERM']:.2f} |"
        )


if __name__ == "__main__":
    main()
