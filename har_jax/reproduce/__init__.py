"""The paper's tables, made again: ``python -m har_jax.reproduce --table=NAME``."""
