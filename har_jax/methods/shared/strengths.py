"""How strongly each training example is regularized, by method."""

from typing import Annotated

import numpy as np
from jaxtyping import Float

from har_jax.methods.shared.entry import Setting
from har_jax.options import Option
from har_jax.strength import inverse_strength, random_strength, scale_to_maximum

Maximum = Annotated[float, Option("of HAR: the largest of all groups", ge=0, le=1e6)]


def constant(
    setting: Setting,
    *,
    uniform_strength: Annotated[float, Option("of uniform regularization", ge=0, le=1e6)] = 0.1,
) -> Float[np.ndarray, " n"]:
    """The same for all."""
    return np.full(len(setting.groups), float(uniform_strength))


def adaptive(setting: Setting, *, strength: Maximum = 0.1) -> Float[np.ndarray, " n"]:
    """By the noise and the frequency of each example's neighbourhood."""
    assert setting.tau is not None
    return scale_to_maximum(setting.tau, strength)


def at_random(setting: Setting, *, strength: Maximum = 0.1) -> Float[np.ndarray, " n"]:
    """Those of HAR, dealt out anew at random: an ablation."""
    return random_strength(adaptive(setting, strength=strength), setting.seed)


def inverse(setting: Setting, *, strength: Maximum = 0.1) -> Float[np.ndarray, " n"]:
    """Strong where HAR is weak: an ablation."""
    return inverse_strength(adaptive(setting, strength=strength))
