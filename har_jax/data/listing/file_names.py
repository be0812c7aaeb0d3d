"""Names of files, which are UTF-8, whatever this process takes them for."""

import os
import sys

from har_jax.data.examples import DataError


def check_name(path: str) -> None:
    """Checks the name of a file or folder as the system has listed it.

    Raises:
      DataError: if it is not UTF-8, or is, and this process reads it as something else.
    """
    try:
        right = os.fsencode(path).decode() == path
    except UnicodeDecodeError as error:
        raise DataError(f"the name {path!r} is not UTF-8: rename it") from error
    if not right:
        raise _wrong_locale(path)


def check_written_name(name: str) -> None:
    """Checks a name that a file in UTF-8 says, before it is asked whether there is such a file.

    Raises:
      DataError: if this process would look for another one.
    """
    try:
        right = os.fsencode(name) == name.encode()
    except UnicodeEncodeError:
        right = False
    if not right:
        raise _wrong_locale(name)


def _wrong_locale(name: str) -> DataError:
    return DataError(
        f"the name {name!r} is UTF-8, and this process takes names of files for "
        f"{sys.getfilesystemencoding()}, by its locale: set PYTHONUTF8=1, or a locale of UTF-8 "
        "such as LC_ALL=C.UTF-8"
    )
