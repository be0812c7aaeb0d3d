"""Convolutions whose derivatives of every order are convolutions that XLA runs fast.

A convolution y = x * w has two derivatives, one for its input and one for its kernel, and all
three are bilinear: each is differentiated by the two others. Written out like this, a gradient of
a gradient is made of the three forms that plain training has. Left to JAX's transposition rules
it has forms of its own, with dilated and reversed operands, which XLA runs slowly on CPU.

XLA:CPU has a fast kernel for one layout alone, into which it brings other convolutions where they
are not inside of a loop or a branch. So on CPU both derivatives are written as convolutions of
that layout, and run as fast inside of a ``lax.scan``. Elsewhere they are what JAX makes of them.

The price: derivatives are reverse-mode only, as of everything with a ``jax.custom_vjp``.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
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


def conv(
    features: int,
    size: tuple[int, int],
    *,
    strides: int = 1,
    padding: int | tuple[int, int] | None = None,
    use_bias: bool = False,
    dtype: Any = None,
    name: str | None = None,
) -> nn.Conv:
    """A Flax convolution, He-normal (fan-in).

    Args:
      features: D.
      size: Of the kernel, h and w.
      strides: In both directions.
      padding: On both sides of height and width; half the size by default, which keeps odd sizes
        ("SAME" would pad one side only where the stride is 2).
      use_bias: Whether to add a bias.
      dtype: The dtype of the computation.
      name: Of the module.
    """
    if padding is None:
        padding = (size[0] // 2, size[1] // 2)
    elif isinstance(padding, int):
        padding = (padding, padding)
    return nn.Conv(
        features,
        size,
        strides,
        padding=tuple((pad, pad) for pad in padding),
        use_bias=use_bias,
        kernel_init=nn.initializers.he_normal(),
        dtype=dtype,
        name=name,
        conv_general_dilated=_as_flax_calls_it,
    )


def conv3x3(
    features: int, *, strides: int = 1, dtype: Any = None, name: str | None = None
) -> nn.Conv:
    """:func:`conv` with a 3x3 kernel."""
    return conv(features, (3, 3), strides=strides, dtype=dtype, name=name)


def _as_flax_calls_it(inputs, kernel, strides, padding, *, precision, **_):
    options = Options(tuple(strides), tuple(map(tuple, padding)), precision)
    return convolve(inputs, kernel, options)


def convolve(inputs: Images, kernel: Kernel, options: Options) -> Float[Array, "B h w D"]:
    """``lax.conv_general_dilated`` of images and a kernel."""
    # Under shard_map, zeros like the one make the other vary along the same axes of the mesh: what
    # sums its gradient over them is then JAX's, and outside of what is differentiated by hand.
    zero = functools.partial(jnp.zeros_like, shape=())
    return _convolve(inputs + zero(kernel), kernel + zero(inputs), options)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _convolve(inputs, kernel, options):
    return _plain(inputs, kernel, options.strides, options.padding, options.precision)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _for_inputs(cotangent, kernel, inputs_type, options):
    """The transpose of :func:`convolve` as a function of its inputs."""

    def by_convolution(cotangent, kernel):  # of the cotangent, spread out, with the turned kernel
        turned = jnp.flip(kernel, (0, 1)).swapaxes(2, 3)
        padding = [
            (window - 1 - before, size + before - (steps - 1) * stride - 1)
            for window, size, steps, stride, before in _geometry(
                kernel.shape, inputs_type.shape, cotangent.shape, options
            )
        ]
        spread = dict(lhs_dilation=options.strides)
        return _plain(cotangent, turned, (1, 1), padding, options.precision, **spread)

    def by_jax(cotangent, kernel):
        transpose = jax.linear_transpose(lambda x: _convolve.fun(x, kernel, options), inputs_type)
        return transpose(cotangent)[0]

    return _choose(by_convolution, by_jax, cotangent, kernel, inputs_type)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _for_kernel(cotangent, inputs, kernel_type, options):
    """The transpose of :func:`convolve` as a function of its kernel."""

    def by_convolution(cotangent, inputs):  # of the inputs with the cotangent, spread out
        padding = [
            (before, window - before + (steps - 1) * stride - size)
            for window, size, steps, stride, before in _geometry(
                kernel_type.shape, inputs.shape, cotangent.shape, options
            )
        ]
        spread = dict(rhs_dilation=options.strides)

        def of_part(part):
            cotangent, inputs = part
            channels_as_batch = inputs.transpose(3, 1, 2, 0)
            cotangent_as_kernel = cotangent.transpose(1, 2, 0, 3)
            return _plain(
                channels_as_batch, cotangent_as_kernel, (1, 1), padding, options.precision, **spread
            )

        # Transposes of a whole batch leave the processor's cache, and take most of the time.
        size = max(size for size in range(1, 17) if len(inputs) % size == 0)
        if size < 4:  # a loop over so little is slower still
            size = len(inputs)
        parts = [x.reshape(-1, size, *x.shape[1:]) for x in (cotangent, inputs)]
        return lax.map(of_part, parts).sum(0).transpose(1, 2, 0, 3)

    def by_jax(cotangent, inputs):
        transpose = jax.linear_transpose(lambda w: _convolve.fun(inputs, w, options), kernel_type)
        return transpose(cotangent)[0]

    return _choose(by_convolution, by_jax, cotangent, inputs, kernel_type)


def _choose(by_convolution, by_jax, first, second, result_type):
    """``by_convolution`` on CPU, where the arrays are what it is written for."""
    shapes = [*first.shape, *second.shape, *result_type.shape]
    empty_or_symbolic = not all(isinstance(size, int) and size > 0 for size in shapes)
    # Over an explicit mesh axis: whose output sharding only JAX's own rules know.
    split = any(any(jax.typeof(array).sharding.spec) for array in (first, second))
    if empty_or_symbolic or split:
        return by_jax(first, second)
    return lax.platform_dependent(first, second, cpu=by_convolution, default=by_jax)


def _plain(images, kernel, strides, padding, precision, **dilation):
    return lax.conv_general_dilated(
        images,
        kernel,
        strides,
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=precision,
        **dilation,
    )


def _geometry(kernel, images, outputs, options):
    """For height and width: the kernel's size, input's, output's, stride and padding before."""
    before = [before for before, _ in options.padding]
    return zip(kernel[:2], images[1:3], outputs[1:3], options.strides, before, strict=True)


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
        _convolve(change, kernel, options),
        _for_kernel(cotangent, change, jax.typeof(kernel), options),
    )


def _for_kernel_back(_, options, saved, change):
    cotangent, inputs = saved
    return (
        _convolve(inputs, change, options),
        _for_inputs(cotangent, change, jax.typeof(inputs), options),
    )


_convolve.defvjp(_save(_convolve), _convolve_back)
_for_inputs.defvjp(_save(_for_inputs), _for_inputs_back)
_for_kernel.defvjp(_save(_for_kernel), _for_kernel_back)
