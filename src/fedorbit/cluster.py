"""Joins a Ray cluster, or starts one on this machine; the only place that imports Ray."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from fedorbit.errors import ClusterError, one_line
from fedorbit.extras import install_extra
from fedorbit.stopping import request_stop

CONNECT_TIMEOUT_S = 5.0
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no usage statistics are sent
    # What Ray is going to do from some release on; without it, it warns of the change.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextmanager
def ray_cluster(address: str | None = None) -> Iterator[ModuleType]:
    """Join the cluster at `address`, else at RAY_ADDRESS, else start Ray on this machine.

    Yields the module `ray`. Leaves, and ends what it started, when the block ends; a process that
    belongs to a cluster already stays in it.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield ray
        return
    joined = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_reachable(joined)
    options = {"include_dashboard": False} if joined == "local" else {}
    with _own_signal_handler():
        try:
            ray.init(joined, logging_level=logging.ERROR, log_to_driver=False, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterError(_why_not_joined(joined, error)) from error
    # Ray prints a page to standard output about every lost worker, and has no setting against it.
    ray._private.worker._worker_logs_enabled = False
    try:
        yield ray
    finally:
        ray.shutdown()
        ray._private.worker._worker_logs_enabled = True


def _import_ray() -> ModuleType:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)  # Ray reads them when it is imported
    try:
        import ray
    except ImportError as error:
        raise ClusterError(f"Ray is not installed ({error}); {install_extra('ray')}") from error
    return ray


def answers(address: str) -> bool:
    """Return whether a process listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _check_reachable(address: str) -> None:
    """Refuse at once what Ray would try for a minute."""
    if "://" in address:
        raise ClusterError(
            f"the cluster's address must be HOST:PORT, got {address!r}; run fedorbit on a node of "
            "the cluster instead of through Ray Client"
        )
    if address not in ("auto", "local") and not answers(address):
        raise ClusterError(
            f"no Ray cluster answers at {address!r}; start one with `ray start --head`, which "
            "prints its address"
        )


@contextmanager
def _own_signal_handler() -> Iterator[None]:
    """Keep the answer to SIGTERM: Ray replaces it by leaving with 15, also while it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit as leaving:
        if leaving.code != signal.SIGTERM:
            raise
        request_stop(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def _why_not_joined(address: str, error: BaseException) -> str:
    reason = one_line(error)
    if address == "local":
        return f"Ray does not start on this machine ({reason}); free memory, or use --engine local"
    if address == "auto":
        return f"no Ray runs on this machine ({reason}); start it with `ray start --head`"
    return (
        f"the Ray cluster at {address!r} cannot be joined ({reason}); this machine must be a node "
        f"of it, by `ray start --address={address}`, and have its token if it asks for one, with "
        "RAY_AUTH_MODE=token set"
    )
