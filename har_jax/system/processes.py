"""The processes of a run on several hosts: how they find each other, and who writes."""

import contextlib
import hashlib
import os
import socket
import sys
import threading
import time

import jax
import numpy as np
from jax.experimental import multihost_utils

HEARTBEAT_SECONDS = 30  # after which a process that is silent counts as gone

# What each sets for every process that it starts, all of which JAX reads.
_SCHEDULERS = {
    "Slurm": (
        "srun",
        (
            "SLURM_JOB_ID",
            "SLURM_STEP_NODELIST",
            "SLURM_NTASKS",
            "SLURM_PROCID",
            "SLURM_LOCALID",
        ),
    ),
    "Open MPI": (
        "mpirun",
        (
            "OMPI_MCA_orte_hnp_uri",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_LOCAL_RANK",
        ),
    ),
}
_REMEDY = "or remove the flag, or replace it by --coordinator, --num_processes and --process_id"
_GO = b"har_jax: go\n"
_ANSWER_SECONDS = 2  # for a line that is sent at once; strangers may send none


class PeerError(OSError):
    """Processes that a run needs are not there."""


def connect(coordinator: str, num_processes: int, process_id: int, timeout: float) -> None:
    """Joins the processes of a run, which say of themselves who they are.

    To be called before JAX opens a device. First all gather at the coordinator's port, so that
    those that are missing can be named; then JAX takes over.

    Args:
      coordinator: ``HOST:PORT`` of process 0.
      num_processes: How many there are.
      process_id: Which this one is.
      timeout: Seconds to wait for the others.

    Raises:
      PeerError: if some are not there in time, named.
    """
    host, _, port = coordinator.rpartition(":")
    end = time.monotonic() + timeout
    if process_id == 0:
        _gather(int(port), num_processes, timeout, end)
    else:
        _report(host, int(port), process_id, timeout, end)
    _leave_signals_alone()
    jax.distributed.initialize(
        coordinator,
        num_processes,
        process_id,
        initialization_timeout=max(10, int(timeout)),
        heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
    )


def connect_automatically(timeout: float) -> None:
    """Joins the processes that Slurm, Cloud TPU, Kubernetes or MPI has started, as JAX finds out.

    Ends this process with a message if the others are not there in time: JAX would abort it.

    Raises:
      PeerError: if none of these has, or what it says of this process is incomplete.
    """

    def give_up() -> None:
        print(
            f"har_jax: the other processes of this run were not there within {timeout:g} s: start "
            "the command on every host, and see whether they reach each other",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)

    timer = threading.Timer(timeout, give_up)
    timer.daemon = True
    timer.start()
    _leave_signals_alone()
    try:
        jax.distributed.initialize(
            initialization_timeout=int(timeout) + 60, heartbeat_timeout_seconds=HEARTBEAT_SECONDS
        )
    except jax.errors.JaxRuntimeError:
        raise
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise PeerError(_without_scheduler(error)) from error
    finally:
        timer.cancel()


def agree(trouble: Exception | None, digest: str) -> None:
    """Lets all processes begin together, or none.

    Args:
      trouble: What went wrong here while the run was prepared.
      digest: Of all that has to be the same everywhere.

    Raises:
      Exception: the trouble, if there is one.
      PeerError: if another process has some, or another digest.
    """
    if jax.process_count() > 1:
        own = np.frombuffer(hashlib.sha256(digest.encode()).digest(), np.uint8)
        flagged = np.concatenate([own, np.array([trouble is not None], np.uint8)])
        everyone = multihost_utils.process_allgather(flagged)
        failed = np.flatnonzero(everyone[:, -1])
        differing = np.flatnonzero(np.any(everyone[:, :-1] != everyone[0, :-1], axis=1))
        if trouble is None and len(failed):
            raise PeerError(f"process {failed[0]} cannot begin: its own output says why")
        if trouble is None and len(differing):
            raise PeerError(
                f"process {differing[0]} has another config, other data or another --workdir than "
                "process 0: give all the same command"
            )
    if trouble is not None:
        raise trouble


def is_first() -> bool:
    """Whether this is the process that writes files; the only one, where there is one."""
    return jax.process_index() == 0


def wait_for_all(name: str) -> None:
    """Waits until every process has come to the point of this name."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def _leave_signals_alone() -> None:
    """Keeps JAX from handling SIGTERM itself, which would not end this process."""
    jax.config.update("jax_enable_preemption_service", False)


def _without_scheduler(error: Exception) -> str:
    """What to say where JAX did not find out which processes there are."""
    says = "--find_processes does not find out which process this is"
    for scheduler, (command, names) in _SCHEDULERS.items():
        present = [name for name in names if name in os.environ]
        if present and len(present) < len(names):
            missing = ", ".join(name for name in names if name not in present)
            return (
                f"{says}: of {scheduler}'s variables there is {', '.join(present)} and there is no "
                f"{missing}: start with {command}, {_REMEDY}"
            )
        if present:
            told = ", ".join(f"{name}={os.environ[name]}" for name in names)
            return f"{says} from {told} ({error}): start with {command}, {_REMEDY}"
    nothing = " and no ".join(f"{names[0]} of {name}" for name, (_, names) in _SCHEDULERS.items())
    return (
        f"{says}: there is no {nothing}, and no Cloud TPU or Kubernetes that would say so "
        f"({error}): start with srun or mpirun, {_REMEDY}"
    )


def _gather(port: int, num_processes: int, timeout: float, end: float) -> None:
    """Waits for the others to report, and lets them go on."""
    missing = set(range(1, num_processes))
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(socket.create_server(("", port), backlog=num_processes))
        except OSError as error:
            raise PeerError(
                f"port {port} of --coordinator cannot be opened here ({error.strerror}): take "
                "another, on all hosts"
            ) from error
        peers = []
        while missing:
            server.settimeout(max(0.01, end - time.monotonic()))
            try:
                peer = stack.enter_context(server.accept()[0])
            except TimeoutError:
                names = ", ".join(map(str, sorted(missing)))
                raise PeerError(
                    f"of {num_processes} processes, {names} did not come to port {port} of this "
                    f"host within {timeout:g} s: start them, with this host's address as "
                    "--coordinator"
                ) from None
            peer.settimeout(_ANSWER_SECONDS)
            with contextlib.suppress(OSError, ValueError, KeyError):  # somebody else's connection
                missing.remove(int(peer.makefile("rb").readline(20)))
                peers.append(peer)
        for peer in peers:
            peer.sendall(_GO)


def _report(host: str, port: int, process_id: int, timeout: float, end: float) -> None:
    """Tells process 0 that this one is there, and waits for the others with it."""
    answer = b""
    while answer != _GO:
        left = end - time.monotonic()
        if left <= 0:
            raise PeerError(
                f"process 0 at {host}:{port} did not answer within {timeout:g} s, or gave up "
                "waiting for others: start it, and see whether this host reaches it"
            )
        try:
            with socket.create_connection((host, port), timeout=left) as connection:
                connection.sendall(f"{process_id}\n".encode())
                answer = connection.makefile("rb").readline(20)
        except OSError:
            pass
        if answer != _GO:
            time.sleep(min(0.2, max(0.0, left)))
