"""What a command of this package does before it imports anything that takes long.

``python -m har_jax.main`` imports the package first, for a second or two, in which there is nothing
to save. Python's own KeyboardInterrupt can be lost there, in a callback of the import system, so
that Ctrl-C is left to the system, which ends the process.
"""

import sys

from har_jax.interruption import end_at_once


def _is_command() -> bool:
    """Whether ``python -m`` looks for a module of this package now."""
    package = __name__.partition(".")[0]
    named = (package, f"-m{package}")
    return sys.argv[:1] == ["-m"] and any(word.split(".")[0] in named for word in sys.orig_argv)


if _is_command():
    end_at_once()
