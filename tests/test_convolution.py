"""The convolution is lax's, and so are its derivatives of every order."""

import re

import chex
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from har_jax.models.layers.convolution import Options, convolve


def plain(x, w, options):
    return lax.conv_general_dilated(
        x, w, options.strides, options.padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(2, 6, 5, 3))), jnp.asarray(rng.normal(size=(3, 3, 3, 4)))


def value(conv, x, w, options):
    return jnp.sum(jnp.sin(conv(x, w, options)))


def first(conv, x, w, options):
    return jax.grad(lambda *xw: value(conv, *xw, options), argnums=(0, 1))(x, w)


def second(conv, x, w, options):
    """The gradient of a norm of the gradients, which differentiates all three forms."""
    norm = lambda *xw: sum(jnp.sum(jnp.sin(g)) for g in first(conv, *xw, options))
    return jax.grad(norm, argnums=(0, 1))(x, w)


def third(conv, x, w, options):
    norm = lambda *xw: sum(jnp.sum(g**2) for g in second(conv, *xw, options))
    return jax.grad(norm, argnums=(0, 1))(x, w)


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize("order", [plain, value, first, second, third])
def test_derivatives_are_those_of_lax(order, strides):
    options = Options(strides, ((1, 1), (1, 1)))
    with jax.enable_x64(True):
        x, w = arrays()
        if order is plain:
            ours, theirs = convolve(x, w, options), plain(x, w, options)
        else:
            ours, theirs = order(convolve, x, w, options), order(plain, x, w, options)
        chex.assert_trees_all_close(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "strides", "padding"),
    [
        ((1, 1), (1, 1), ((0, 0), (0, 0))),
        ((3, 3), (2, 2), ((0, 0), (0, 0))),
        ((7, 7), (2, 2), ((3, 3), (3, 3))),
        ((1, 7), (1, 1), ((0, 0), (3, 3))),
        ((5, 3), (1, 2), ((2, 1), (0, 2))),
        ((3, 3), (1, 1), ((-1, 0), (-1, -1))),  # less than nothing
        ((9, 9), (1, 1), ((1, 1), (1, 1))),  # a kernel that does not fit in: nothing comes out
    ],
)
def test_any_kernel_and_padding(kernel, strides, padding):
    options = Options(strides, padding)
    with jax.enable_x64(True):
        x = arrays()[0]
        w = jnp.asarray(np.random.default_rng(1).normal(size=(*kernel, 3, 4)))
        chex.assert_trees_all_close(
            second(convolve, x, w, options), second(plain, x, w, options), rtol=1e-11
        )


@pytest.mark.parametrize("shape", [(0, 6, 5, 3), (2, 0, 5, 3), (2, 6, 5, 0)])
def test_nothing_has_the_gradients_of_nothing(shape):
    options = Options((2, 2), ((1, 1), (1, 1)))
    x, w = jnp.ones(shape), jnp.ones((3, 3, shape[-1], 4))
    chex.assert_trees_all_equal(second(convolve, x, w, options), second(plain, x, w, options))


def test_it_is_exported_for_any_batch():
    options = Options((1, 1), ((1, 1), (1, 1)))
    x, w = arrays()
    shape = jax.export.symbolic_shape("b, 6, 5, 3")
    of_any = jax.ShapeDtypeStruct(shape, x.dtype), jax.ShapeDtypeStruct(w.shape, w.dtype)
    gradient = jax.jit(lambda x, w: first(convolve, x, w, options))
    exported = jax.export.export(gradient)(*of_any)
    chex.assert_trees_all_close(exported.call(x, w), gradient(x, w), rtol=1e-5)


def test_it_can_be_mapped_over_both_operands():
    options = Options((2, 2), ((1, 1), (1, 1)))
    with jax.enable_x64(True):
        stacked = [jnp.stack(pair) for pair in zip(arrays(0), arrays(1), strict=True)]
        mapped = jax.vmap(lambda x, w: second(convolve, x, w, options))(*stacked)
        for index in range(2):
            one = second(plain, *(each[index] for each in stacked), options)
            chex.assert_trees_all_close([each[index] for each in mapped], list(one), rtol=1e-12)


@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_on_cpu_every_form_has_the_layout_that_xla_runs_fast_in_loops(strides):
    options = Options(strides, ((1, 1), (1, 1)))
    lowered = jax.jit(lambda x, w: second(convolve, x, w, options)).lower(*arrays()).as_text()
    layouts = re.findall(r"stablehlo.convolution.*dim_numbers = (.+?), window", lowered)
    assert len(layouts) > 6
    assert set(layouts) == {"[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"}
