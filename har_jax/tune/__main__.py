"""``python -m har_jax.tune``."""

import sys

from har_jax.system.terminal import guard_output
from har_jax.tune.command import main

if __name__ == "__main__":
    guard_output()
    main(sys.argv[1:])
