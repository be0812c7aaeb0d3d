"""What a command of this package does before it imports anything that takes long.

``python -m har_jax`` imports the package first, for a second or two, in which there is nothing to
save. Python's own KeyboardInterrupt can be lost there, in a callback of the import system, so that
Ctrl-C is left to the system, which ends the process.
"""

import gc
import os
import re
import sys
from types import TracebackType

from har_jax.system.interruption import end_at_once
from har_jax.system.terminal import stop

_PACKAGE = __name__.partition(".")[0]
_SCRIPT = "har-jax"
_EXTRA = "cli"  # of setup.cfg: what the commands need and the library does not
# When Python looks for garbage, of which tracing makes little: at 700 it takes a tenth of the time.
SELDOM = (20_000, 20, 20)


def _is_command() -> bool:
    """Whether a command of this package is started now, by ``python -m`` or as a script."""
    if sys.argv[:1] == ["-m"]:
        named = (_PACKAGE, f"-m{_PACKAGE}")
        return any(word.split(".")[0] in named for word in sys.orig_argv)
    return os.path.basename(sys.argv[0] if sys.argv else "") == _SCRIPT


def _check_requirements() -> None:
    """Ends the program with one line if packages of the extra are not installed."""
    if missing := _missing():
        stop(
            f"the command line needs what is not installed here, {', '.join(missing)}: install "
            f"{_PACKAGE}[{_EXTRA}], in its repository by pip install -e '.[{_EXTRA}]'",
            at_once=True,
        )


def _missing() -> list[str]:
    """The packages of the extra that are not installed."""
    from importlib import metadata

    try:
        requirements = metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:  # run from its source, by somebody who sees to that
        return []
    ours = [line for line in requirements if re.search(rf"extra == ['\"]{_EXTRA}['\"]", line)]
    names = [match[0] for line in ours if (match := re.match(r"[\w.-]+", line))]
    return [name for name in names if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    from importlib import metadata

    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _tell(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, ModuleNotFoundError):
        _check_requirements()
    sys.__excepthook__(kind, error, traceback)


def begin() -> None:
    """Ends the start: a command calls this before its work.

    Ends the program with one line if packages of the extra are not installed, which takes as long
    to find out as a good part of the start.
    """
    _check_requirements()
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
        gc.set_threshold(*SELDOM)


if _is_command():
    end_at_once()
    sys.excepthook = _tell
    gc.disable()  # nothing of what is imported is garbage, and looking takes a fifth of the time
