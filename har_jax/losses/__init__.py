"""Losses of logits and labels: per example, but for those that only a batch has.

Functions of arrays; and the choices of a config, each a class of :class:`Loss` and a line here.
"""

from collections.abc import Callable, Mapping

from har_jax.losses.adjusted import (
    BalancedSoftmax,
    LogitAdjusted,
    balanced_softmax,
    logit_adjusted,
    post_hoc_adjusted,
)
from har_jax.losses.class_weights import class_balanced_weights
from har_jax.losses.cross_entropy import CrossEntropy, cross_entropy
from har_jax.losses.determinant import determinant_mutual_information
from har_jax.losses.early_learning import early_learning_regularization, early_learning_targets
from har_jax.losses.focal import ClassBalancedFocal, Focal, class_balanced_focal, focal
from har_jax.losses.generalized import (
    GeneralizedCrossEntropy,
    generalized_cross_entropy,
    truncated_generalized_cross_entropy,
)
from har_jax.losses.loss import Loss, PerExampleLoss, as_loss
from har_jax.losses.margin import (
    LabelDistributionAwareMargin,
    class_margins,
    label_distribution_aware_margin,
)

LOSSES: Mapping[str, Callable[..., Loss]] = {
    "cross_entropy": CrossEntropy,
    "focal": Focal,
    "class_balanced_focal": ClassBalancedFocal,
    "ldam": LabelDistributionAwareMargin,
    "balanced_softmax": BalancedSoftmax,
    "logit_adjusted": LogitAdjusted,
    "generalized_cross_entropy": GeneralizedCrossEntropy,
}
"""The losses that a config can name."""

__all__ = [
    "LOSSES",
    "BalancedSoftmax",
    "ClassBalancedFocal",
    "CrossEntropy",
    "Focal",
    "GeneralizedCrossEntropy",
    "LabelDistributionAwareMargin",
    "LogitAdjusted",
    "Loss",
    "PerExampleLoss",
    "as_loss",
    "balanced_softmax",
    "class_balanced_focal",
    "class_balanced_weights",
    "class_margins",
    "cross_entropy",
    "determinant_mutual_information",
    "early_learning_regularization",
    "early_learning_targets",
    "focal",
    "generalized_cross_entropy",
    "label_distribution_aware_margin",
    "logit_adjusted",
    "post_hoc_adjusted",
    "truncated_generalized_cross_entropy",
]
