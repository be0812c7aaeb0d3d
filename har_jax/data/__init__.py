"""Sources by name, noise and imbalance protocols, splits, augmentation and batches."""

from har_jax.data.batches import Batches
from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.imbalance import exponential_imbalance, step_imbalance
from har_jax.data.noise import exchange_within_groups, flip_classes
from har_jax.data.protocol import TrainingData, load
from har_jax.data.splits import stratified_folds, stratified_split

__all__ = [
    "Batches",
    "DataError",
    "Dataset",
    "Examples",
    "TrainingData",
    "exchange_within_groups",
    "exponential_imbalance",
    "flip_classes",
    "load",
    "step_imbalance",
    "stratified_folds",
    "stratified_split",
]
