"""How commands end: with one line, and the status that says whose the mistake is."""

import os
import sys
from typing import NoReturn


def stop(message: str, status: int = 2, *, at_once: bool = False) -> NoReturn:
    """Ends the program with a message on one line.

    Args:
      message: Line breaks become spaces.
      status: 2 stands for a wrong command or config.
      at_once: Whether to leave out what Python does at its end, such as waiting for other
        processes of a run, which may be gone.
    """
    print(f"har_jax: {' '.join(message.split())}", file=sys.stderr, flush=True)
    if at_once:
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)
