"""What the authors of each baseline chose for CIFAR, as changes of a config of
:mod:`har_jax.config.recipes`, in place.

The network stays the config's, as do its data and their noise, but for the examples that are known
to be labelled rightly. Cao et al. (2021) do not say which of these choices their tables are of;
those of :mod:`har_jax.reproduce` train every method with one budget instead.
"""

from har_jax.config.published.imbalance import (
    balanced_softmax,
    bbn,
    cb_focal,
    focal,
    ldam,
    logit_adjustment,
)
from har_jax.config.published.noise import (
    co_teaching,
    dmi,
    elr,
    gce,
    incv,
    l2rw,
    mentornet,
    mw_net,
)

__all__ = [
    "balanced_softmax",
    "bbn",
    "cb_focal",
    "co_teaching",
    "dmi",
    "elr",
    "focal",
    "gce",
    "incv",
    "l2rw",
    "ldam",
    "logit_adjustment",
    "mentornet",
    "mw_net",
]
