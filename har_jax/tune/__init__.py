"""Strengths, chosen on held-out noisy training data: ``python -m har_jax.tune --config=FILE``."""
