"""The connection of this process with Ray."""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import ClassVar

import ray

from actors.errors import ClusterError
from runtime.settings import Settings

LOCAL = "local"
"""Ray's address for a local Ray that this program starts."""

INSTEAD = "Start a cluster with 'ray start --head', and give its address"
"""What users can do where a local Ray of this program will not do."""


class RayConnection:
    """A share in the one connection that a process can have with Ray.

    All Runtimes of a process share the connection. The last of them closes a connection that they have opened, and with it a
    local Ray that was started for it; a connection that the program itself has opened stays.

    Args:
        settings: of the deployment.
        address: of a cluster; "auto" looks for one on this machine; None uses the Ray that this process has initialised, or that
            RAY_ADDRESS names, or starts a local one.
        may_start: whether a local Ray may be started, which ends with this process.
    """

    _users: ClassVar[int] = 0
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, settings: Settings, address: str | None, *, may_start: bool = True) -> None:
        self._settings = settings
        self._address = address
        self._may_start = may_start
        self._is_user = False

    def open(self) -> None:
        """Connect to Ray, or start it, if need be. Raises ClusterError.

        Call it in the main thread, if possible: only there Ray handles SIGTERM with an orderly exit. Elsewhere, a driver that
        gets SIGTERM leaves processes of a local Ray behind.
        """
        with self._lock:
            if not ray.is_initialized():
                self._connect()
                RayConnection._users = 0
            elif not RayConnection._users:
                # The program itself has connected before any Runtime did.
                return
            RayConnection._users += 1
            self._is_user = True

    def close(self) -> None:
        """Give up the share; the last one disconnects. Closing twice is no error."""
        with self._lock:
            if not self._is_user:
                return
            self._is_user = False
            RayConnection._users -= 1
            if not RayConnection._users:
                ray.shutdown()

    def _connect(self) -> None:
        settings = self._settings
        # Without an address, Ray would use the cluster that was started last on this machine: another user's perhaps, or gone.
        address = self._address or os.environ.get("RAY_ADDRESS") or LOCAL
        if not self._may_start and address == LOCAL:
            raise ClusterError(f"a Ray that this program starts would end with it. {INSTEAD}")
        try:
            _check_reachable(address, settings.start_timeout_s)
            ray.init(
                address=address,
                namespace=settings.namespace,
                num_cpus=settings.num_cpus if address == LOCAL else None,
                include_dashboard=False if address == LOCAL else None,
                log_to_driver=settings.log_to_driver,
                logging_level=logging.ERROR,
            )
        except (OSError, RuntimeError, ValueError) as error:
            where = "on this machine" if address in (LOCAL, "auto") else f"at {address!r}"
            instead = "" if self._may_start else f". {INSTEAD}"
            raise ClusterError(f"no Ray {where} can be used: {error}{instead}") from error


def _check_reachable(address: str, timeout_s: float) -> None:
    """Check that a process listens at `host:port`. Ray itself would try for minutes. Raises OSError."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=timeout_s).close()
