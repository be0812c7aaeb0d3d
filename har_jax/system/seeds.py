"""Independent seeds for the parts of an experiment, all from one."""

import zlib

import numpy as np


def derive(seed: int, name: str) -> int:
    """A seed in ``[0, 2**32)`` that depends on ``seed`` and on a name, and on nothing else.

    Parts that take their randomness from names of their own do not change when another
    part draws more or less of it.
    """
    words = np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)
    return int(words[0])
