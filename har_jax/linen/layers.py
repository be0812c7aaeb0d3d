"""Which layers R is taken at: filters of the kind that Flax's ``capture_intermediates`` takes."""

from collections.abc import Callable, Mapping

from flax import linen as nn

Filter = Callable[[nn.Module, str], bool]
"""``(bound module, name of the called method) -> whether to tap what the call returns``."""

_NORMALIZATIONS = (nn.BatchNorm, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.InstanceNorm)


def normalization_layers(module: nn.Module, method_name: str) -> bool:
    """Selects the output of every Flax normalization layer: the paper's choice.

    The signature is that of Flax's ``capture_intermediates`` filters. The models of this
    library scale and shift outside of the Flax layer (:class:`har_jax.models.Norm`), so
    that what is selected there is the normalized activation before scale and bias.

    Args:
      module: A bound module.
      method_name: The name of the method that was called.

    Returns:
      Whether to tap the output of this call.
    """
    return method_name == "__call__" and isinstance(module, _NORMALIZATIONS)


def normalization_layers_but_stem(module: nn.Module, method_name: str) -> bool:
    """Selects as :func:`normalization_layers`, outside of submodules called ``stem...``.

    The authors' code taps the norms inside the residual blocks and not the first one.
    """
    return normalization_layers(module, method_name) and not any(
        part.startswith("stem") for part in module.path
    )


def embeddings_and_recurrent_layers(module: nn.Module, method_name: str) -> bool:
    """Selects what embeddings and bidirectional recurrent layers return.

    For networks without norms, as the paper's bidirectional LSTM is one. The layer is the pair of
    both directions: its norm sums over time and over both.
    """
    return method_name == "__call__" and isinstance(module, (nn.Embed, nn.Bidirectional))


FILTERS: Mapping[str, Filter] = {
    "normalization": normalization_layers,
    "normalization_but_stem": normalization_layers_but_stem,
    "embeddings_and_recurrent": embeddings_and_recurrent_layers,
}
"""The filters that a config can name."""

TEXT_FILTERS = ("embeddings_and_recurrent",)
"""Those of networks that read texts."""
