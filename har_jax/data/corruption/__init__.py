"""Label noise and class imbalance that are made: a file each, and a line here."""

from collections.abc import Callable, Mapping

from har_jax.data.corruption.asymmetric import Asymmetric, flip_classes
from har_jax.data.corruption.base import Imbalance, Mislabelling, Noise, Thinning, none
from har_jax.data.corruption.exponential import Exponential, exponential_imbalance
from har_jax.data.corruption.groups import Groups, exchange_within_groups
from har_jax.data.corruption.step import Step, step_imbalance
from har_jax.data.corruption.symmetric import Symmetric

NOISES: Mapping[str, Callable[..., Noise | None]] = {
    "none": none,
    "groups": Groups,
    "symmetric": Symmetric,
    "asymmetric": Asymmetric,
}
"""The kinds of noise that a config can name."""

IMBALANCES: Mapping[str, Callable[..., Imbalance | None]] = {
    "none": none,
    "step": Step,
    "exponential": Exponential,
}
"""The kinds of imbalance that a config can name."""

__all__ = [
    "IMBALANCES",
    "NOISES",
    "Asymmetric",
    "Exponential",
    "Groups",
    "Imbalance",
    "Mislabelling",
    "Noise",
    "Step",
    "Symmetric",
    "Thinning",
    "exchange_within_groups",
    "exponential_imbalance",
    "flip_classes",
    "step_imbalance",
]
