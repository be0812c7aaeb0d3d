"""Arguments of commands; of those that train many times read by argparse."""

import argparse
import os
import pathlib
from typing import NoReturn

from har_jax.system.terminal import stop


class Parser(argparse.ArgumentParser):
    """Ends the program with one line if an argument is wrong, and takes none by its beginning."""

    def __init__(self, prog: str, description: str | None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        stop(f"{message}; --help says more")


def folder_of(flag: str, given: str) -> pathlib.Path:
    """A folder of this machine; ends the program with one line if an address was given."""
    if "://" in given:
        stop(f"{flag}={given} is an address: take a folder of this machine")
    return pathlib.Path(os.path.expanduser(given))


def positive_integer(text: str) -> int:
    """A number of things."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} must be positive")
    return number
