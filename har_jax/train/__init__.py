"""Training: optimizer, loop, checkpoints, metrics, progress and evaluation."""
