"""Sources by name, noise and imbalance protocols, splits, augmentation and batches."""

from har_jax.data.batches import Batches
from har_jax.data.corruption import (
    exchange_within_groups,
    exponential_imbalance,
    flip_classes,
    step_imbalance,
)
from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.protocol import load
from har_jax.data.reversed import ReversedBatches
from har_jax.data.sources.source import Source
from har_jax.data.splits import stratified_folds, stratified_split
from har_jax.data.training_data import TrainingData

__all__ = [
    "Batches",
    "DataError",
    "Dataset",
    "Examples",
    "ReversedBatches",
    "Source",
    "TrainingData",
    "exchange_within_groups",
    "exponential_imbalance",
    "flip_classes",
    "load",
    "step_imbalance",
    "stratified_folds",
    "stratified_split",
]
