"""How commands end: with one line, and the status that says whose the mistake is."""

import sys
from typing import NoReturn


def stop(message: str, status: int = 2) -> NoReturn:
    """Ends the program with a message on one line; 2 stands for a wrong command or config."""
    print(f"har_jax: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(status)
