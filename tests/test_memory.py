"""What a step needs in memory, as the compiler says."""

import jax
import jax.numpy as jnp
import optax

from har_jax import methods
from har_jax.models import CifarResNet
from har_jax.train.compilation import compiler_options


def temporary_bytes(make, **options):
    method = make(CifarResNet(num_classes=10, depth=32), optax.sgd(0.1), **options)
    shape = jax.ShapeDtypeStruct
    batch = {
        "inputs": shape((128, 32, 32, 3), jnp.float32),
        "labels": shape((128,), jnp.int32),
        "strength": shape((128,), jnp.float32),
    }
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(method.init, key, batch)
    step = jax.jit(method.step, compiler_options=compiler_options())
    return step.lower(state, batch, key).compile().memory_analysis().temp_size_in_bytes


def test_har_takes_less_than_twice_the_memory_and_microbatches_less_than_plain_training():
    plain = temporary_bytes(methods.erm)
    assert temporary_bytes(methods.har) < 1.8 * plain
    assert temporary_bytes(methods.har, microbatches=2) < plain
