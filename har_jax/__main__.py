"""``python -m har_jax`` does what ``python -m har_jax.main`` does."""

from har_jax.main import run

if __name__ == "__main__":
    run()
