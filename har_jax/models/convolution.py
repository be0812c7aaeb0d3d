"""Convolutions whose derivatives of every order are convolutions that XLA runs fast.

A convolution y = x * w has two derivatives, one for its input and one for its kernel, and all
three are bilinear: each is differentiated by the two others. Written out like this, a gradient of
a gradient is made of the three forms that plain training has. Left to JAX's transposition rules
it has forms of its own, with dilated and reversed operands, which XLA runs slowly on CPU.

The price: derivatives are reverse-mode only, as of everything with a ``jax.custom_vjp``.
"""

import functools
from typing import Any, NamedTuple

import jax
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Float

Images = Float[Array, "B H W C"]
Kernel = Float[Array, "h w C D"]


class Options(NamedTuple):
    """Two strides, two pairs of padding, and the precision as ``lax`` takes it."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    precision: lax.PrecisionLike = None


def conv3x3(features: int, *, strides: int = 1, dtype: Any = None, name: str | None = None):
    """A Flax convolution with a 3x3 kernel, He-normal (fan-in), without bias.

    Padding is 1 on both sides; "SAME" would pad one side only where the stride is 2.
    """
    return nn.Conv(
        features,
        (3, 3),
        strides,
        padding=1,
        use_bias=False,
        kernel_init=nn.initializers.he_normal(),
        dtype=dtype,
        name=name,
        conv_general_dilated=_as_flax_calls_it,
    )


def _as_flax_calls_it(inputs, kernel, strides, padding, *, precision, **_):
    options = Options(tuple(strides), tuple(map(tuple, padding)), precision)
    return convolve(inputs, kernel, options)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(inputs: Images, kernel: Kernel, options: Options) -> Float[Array, "B h w D"]:
    """``lax.conv_general_dilated`` of images and a kernel."""
    return lax.conv_general_dilated(
        inputs,
        kernel,
        options.strides,
        options.padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=options.precision,
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _for_inputs(cotangent, kernel, inputs_type, options):
    """The transpose of :func:`convolve` as a function of its inputs."""
    transpose = jax.linear_transpose(lambda x: convolve.fun(x, kernel, options), inputs_type)
    return transpose(cotangent)[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _for_kernel(cotangent, inputs, kernel_type, options):
    """The transpose of :func:`convolve` as a function of its kernel."""
    transpose = jax.linear_transpose(lambda w: convolve.fun(inputs, w, options), kernel_type)
    return transpose(cotangent)[0]


def _save(function):
    """Keeps what a bilinear function of two arrays is linear in."""
    return lambda first, second, *rest: (function(first, second, *rest), (first, second))


def _convolve_back(options, saved, cotangent):
    inputs, kernel = saved
    return (
        _for_inputs(cotangent, kernel, jax.typeof(inputs), options),
        _for_kernel(cotangent, inputs, jax.typeof(kernel), options),
    )


def _for_inputs_back(_, options, saved, change):
    cotangent, kernel = saved
    return (
        convolve(change, kernel, options),
        _for_kernel(cotangent, change, jax.typeof(kernel), options),
    )


def _for_kernel_back(_, options, saved, change):
    cotangent, inputs = saved
    return (
        convolve(inputs, change, options),
        _for_inputs(cotangent, change, jax.typeof(inputs), options),
    )


convolve.defvjp(_save(convolve), _convolve_back)
_for_inputs.defvjp(_save(_for_inputs), _for_inputs_back)
_for_kernel.defvjp(_save(_for_kernel), _for_kernel_back)
