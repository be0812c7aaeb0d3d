"""How training steps are compiled: with which options, and only once."""

import functools
import os
import pathlib

import jax
from jax.extend import core

from har_jax.jaxprs import equations


def use_compilation_cache() -> None:
    """Turns JAX's compilation cache on, in the user's cache folder.

    Has no effect where ``JAX_COMPILATION_CACHE_DIR`` or JAX's own configuration names another
    folder; ``JAX_ENABLE_COMPILATION_CACHE=false`` turns it off. Opens no device.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        try:
            caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        except RuntimeError:  # a user without a home, as in some containers
            return
        jax.config.update("jax_compilation_cache_dir", str(caches / "har_jax" / "xla"))


def make_deterministic() -> None:
    """Makes a GPU give the same bits every time, as a CPU does without.

    To be called before JAX opens the GPU. Costs speed: XLA then neither times kernels to choose the
    fastest nor adds up in an order that is left to chance.
    """
    flag = "--xla_gpu_deterministic_ops=true"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()


def compiler_options(program: core.ClosedJaxpr) -> dict[str, str]:
    """What a training step is best compiled with on the default device, for ``jax.jit``.

    On CPU, convolutions by Eigen, which takes all cores, in place of YNNPACK, which takes one for
    most of them: HAR on ResNet-32 runs 1.3 times as fast on two cores (benchmarks/README.md).
    Of networks without any it would make products of matrices slower. The option is experimental;
    where XLA has it no longer there are none.
    """
    names = (equation.primitive.name for equation in equations(program.jaxpr))
    return _of_convolutions() if "conv_general_dilated" in names else {}


@functools.cache
def _of_convolutions() -> dict[str, str]:
    if jax.default_backend() != "cpu":
        return {}
    options = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"}
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options
