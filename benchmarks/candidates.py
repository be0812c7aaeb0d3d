"""What is timed: a training step of this library, on one random batch."""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.timing import Run, alternate, ratio
from har_jax import methods, normalization_layers_but_stem
from har_jax.models import CifarResNet
from har_jax.options import make
from har_jax.train.compilation import compiler_options

NUM_EXAMPLES = 50_000  # of CIFAR's training sets
PRECISIONS = ("float32", "tf32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Setup:
    """A step of the paper's recipe.

    Attributes:
      depth: Of the ResNet.
      batch_size: Examples in a step.
      precision: Of convolutions and matrix products: ``"float32"``; ``"tf32"``, which GPUs have
        and which is the default there; ``"bfloat16"``, of all computation but the parameters.
    """

    depth: int = 32
    batch_size: int = 128
    precision: str = "float32"

    def matmul_precision(self):
        """A context in which to compile."""
        return jax.default_matmul_precision("highest" if self.precision == "float32" else "default")

    def batch(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        images = lambda: rng.normal(size=(self.batch_size, 32, 32, 3)).astype(np.float32)
        labels = lambda: rng.integers(10, size=self.batch_size).astype(np.int32)
        return {
            "inputs": images(),
            "labels": labels(),
            "strength": rng.uniform(0, 0.1, size=self.batch_size).astype(np.float32),
            "index": np.arange(self.batch_size, dtype=np.int32),
            "meta_inputs": images(),
            "meta_labels": labels(),
            "reversed_inputs": images(),
            "reversed_labels": labels(),
        }

    def candidates(self) -> dict[str, np.ndarray]:
        """Rows beside the batch, as many as INCV takes at most."""
        rows = self.batch_size // 2
        return {f"candidate_{name}": of[:rows] for name, of in self.batch().items()}


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A step that can be timed.

    Attributes:
      run: Makes steps, or so many times several of them.
      several: How many.
      compile_seconds: Tracing and compiling.
      flops: As XLA counts those of the program that it is given; None where it cannot.
      temporary_bytes: The memory that a step takes and gives back; None where XLA does not say.
    """

    run: Run
    several: int = 1
    compile_seconds: float | None = None
    flops: float | None = None
    temporary_bytes: int | None = None


def beside(steps: dict[str, Candidate], rounds: int) -> Iterator[list[str]]:
    """A Markdown table's head and rows: each step beside plain training's, the first, in turn.

    Times are compared within a round; FLOPs and memory need every step to have them.
    """
    measured = alternate({name: each.run for name, each in steps.items()}, rounds)
    times = {name: values / steps[name].several for name, values in measured.items()}
    plain = next(iter(steps))
    of = "of ERM's"
    yield ["step", "median, s", f"{of} (quartiles)", "GFLOP", of, "memory, MiB", of]
    for name, step in steps.items():
        median, low, high = ratio(times[name], times[plain])
        flops, memory = _counts(step)
        of_flops, of_memory = _counts(step) / _counts(steps[plain])
        yield [
            name,
            f"{np.median(times[name]):.3f}",
            f"{median:.2f} ({low:.2f}-{high:.2f})",
            f"{flops / 1e9:.2f}",
            f"{of_flops:.2f}",
            f"{memory / 2**20:.0f}",
            f"{of_memory:.2f}",
        ]


def _counts(step: Candidate) -> np.ndarray:
    return np.array([step.flops, step.temporary_bytes], float)


def sgd() -> optax.GradientTransformation:
    """The paper's, as :func:`benchmarks.peer.sgd`."""
    return optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.1, momentum=0.9))


def make_method(name: str, setup: Setup, *, remat: bool = False, **options: Any) -> methods.Method:
    """A method by its name in a config, with the paper's network, optimizer and form of R.

    Args:
      name: One of :data:`har_jax.methods.METHODS`.
      setup: The network's size and precision.
      remat: Whether blocks of the network are computed again in place of being kept.
      **options: The method's own, and those of :class:`har_jax.methods.StepOptions`.
    """
    dtype = jnp.bfloat16 if setup.precision == "bfloat16" else jnp.float32
    model = CifarResNet(10, setup.depth, dtype=dtype, remat=remat)
    entry = methods.METHODS[name]
    known = {
        "layers": normalization_layers_but_stem,
        "num_examples": NUM_EXAMPLES,
        "steps_per_epoch": NUM_EXAMPLES / setup.batch_size,
        "total_steps": 1000,
        "learning_rate": lambda step: 0.1,
        "weight_decay": 1e-4,
        "selected_noise_rate": 0.05,
    }
    shared = methods.StepOptions.__annotations__
    given = {key: value for key, value in known.items() if entry.takes(key)}
    given |= {key: value for key, value in options.items() if key in shared}
    chosen = {"reduction": "sum_of_norms", "noise_rate": 0.2, "warm_up": 0.0, **options}
    if entry.loss is not None:
        given["loss"] = make(entry.loss, chosen=chosen, given={"counts": 5000 // np.arange(1, 11)})
    return make(entry.make, model, sgd(), chosen=chosen, given=given)


def ours(
    name: str,
    setup: Setup,
    *,
    remat: bool = False,
    every: int = 1,
    microbatches: int = 1,
    **options: Any,
) -> Candidate:
    """A step of a method, compiled; where R is taken at some of them, as many as come by turns."""
    made = make_method(name, setup, remat=remat, every=every, microbatches=microbatches, **options)
    with setup.matmul_precision():
        # What a loop holds is counted once; convolutions are loops on CPU only.
        selects = methods.METHODS[name].selects is not None
        batch = setup.batch() | (setup.candidates() if selects else {})
        return compiled(made, batch, every=every, counted=microbatches == 1)


def compiled(
    made: methods.Method, batch: dict[str, np.ndarray], *, every: int = 1, counted: bool = True
) -> Candidate:
    """A step of any method on a batch; its FLOPs as well, where they can be ``counted``."""
    steps = (made.step,) if made.phases is None else made.phases.steps
    batch = jax.device_put(batch)
    key = jax.random.key(0)
    state = jax.jit(made.init)(key, batch)
    start = time.perf_counter()
    traced = [jax.jit(step, donate_argnums=0).trace(state, batch, key) for step in steps]
    programs = [each.lower().compile(compiler_options(each.jaxpr)) for each in traced]
    seconds = time.perf_counter() - start
    due = (lambda _: 0) if made.phases is None else made.phases.due

    def run(times: int) -> None:
        nonlocal state
        for number in range(every * times):
            state, _ = programs[due(number)](state, batch, key)
        jax.block_until_ready(state)

    flops = None
    if counted:
        each_flops = [
            each.lower(lowering_platforms=("cuda",)).cost_analysis()["flops"] for each in traced
        ]
        flops = sum(each_flops[due(number)] for number in range(every)) / every
    memory = max(each.memory_analysis().temp_size_in_bytes for each in programs)
    return Candidate(run, every, seconds, flops, memory)
