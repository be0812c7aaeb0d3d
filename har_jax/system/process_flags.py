"""The flags of a run of several processes."""

import os
import re
import sys

from absl import flags

from har_jax.system.terminal import stop

_COORDINATOR = flags.DEFINE_string(
    "coordinator", None, "HOST:PORT of process 0, of a run of several processes."
)
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "How many they are.", lower_bound=1)
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "Which this one is, from 0.", lower_bound=0)
_FIND_PROCESSES = flags.DEFINE_bool(
    "find_processes", False, "Joins the processes that Slurm, Cloud TPU, GKE or MPI has started."
)
_PEER_TIMEOUT = flags.DEFINE_float(
    "peer_timeout",
    300.0,
    "Seconds to wait for the other processes.",
    lower_bound=1.0,
    upper_bound=1e6,
)


def check() -> None:
    """Ends the program with one line if the flags do not fit together."""
    address, count, number = _COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value
    if address is None and count is None and number is None:
        return
    if address is None or count is None or number is None:
        stop("a run of several processes needs --coordinator, --num_processes and --process_id")
    if _FIND_PROCESSES.value:
        stop("--find_processes and --coordinator exclude each other: remove one of the two")
    if number >= count:
        stop(f"--process_id={number} must be below --num_processes={count}")
    if not re.fullmatch(r".+:\d{1,5}", address) or int(address.rpartition(":")[2]) > 65535:
        stop(f"--coordinator={address} must be HOST:PORT")


def join() -> None:
    """Makes this process one of several, if the flags say so; only the first one prints.

    Raises:
      PeerError: if the others are not there.
    """
    from har_jax.system import processes

    address, count, number = _COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value
    if _FIND_PROCESSES.value:
        processes.connect_automatically(_PEER_TIMEOUT.value)
    elif address is not None and count is not None and number is not None:
        processes.connect(address, count, number, _PEER_TIMEOUT.value)
    else:
        return
    if not processes.is_first():
        sys.stdout = open(os.devnull, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
