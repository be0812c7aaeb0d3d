"""The paper's figures, made again: ``python -m har_jax.reproduce --figure=NAME``."""
