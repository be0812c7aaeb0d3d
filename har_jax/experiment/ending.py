"""How a command of many runs ends: with one line and a status, and in time after a signal."""

import contextlib
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool

import jax

from har_jax.config import ConfigError
from har_jax.data.examples import DataError
from har_jax.experiment.workdir import StageError
from har_jax.system.interruption import (
    SECONDS_TO_SAVE,
    Interrupted,
    check,
    end_at_once,
    end_in_time,
)
from har_jax.system.terminal import stop
from har_jax.train.memory import shortage


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """Ends the program with one line and a status if the block fails, or if a signal comes."""
    end_in_time(SECONDS_TO_SAVE)
    try:
        yield
        end_at_once()
        check()
    except ConfigError as error:
        stop(str(error))
    except (StageError, DataError, OSError) as error:
        stop(str(error), status=1)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        if told := shortage(error):
            stop(told, status=1)
        raise
    except BrokenProcessPool:
        stop(
            "a run was killed, as happens where memory is short: take fewer --jobs; the same "
            "command goes on from the last checkpoints",
            status=1,
        )
    except Interrupted as error:
        stop(f"{error}: the same command goes on from there", status=128 + error.signal)
