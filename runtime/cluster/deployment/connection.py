"""The connection of this process with Ray: what must be right before it is made, who shares it, and its forks.

Before a program connects to a Ray that runs, the address, the token and the versions are checked: Ray itself tries for twenty
seconds and more, and then does not say which of them is wrong.

Forks have none of Ray's threads, but all of its objects, and sockets that both would use. Nothing of Ray may be called in a fork,
and nothing of it may be destroyed there either. At the end of its interpreter, Ray would shut down the cluster of the process
that it was forked from, or wait for threads that it does not have, or crash.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from queue import Empty, SimpleQueue
from threading import Thread
from typing import ClassVar

import ray
from ray.exceptions import AuthenticationError, RayError

from actors.errors import ClusterError
from runtime.cluster.ray.connections import connect_for_programs_only
from runtime.cluster.ray.control_service import Versions, ask_versions
from runtime.cluster.ray.local_ray import folder_of_ray, starting_ray
from runtime.cluster.ray.names import is_tested
from runtime.cluster.ray.nodes import running_address
from runtime.cluster.ray.process import detach, hide_noise, print_no_stack
from runtime.cluster.ray.tokens import MODE, find_token_without_home, has_token, have_local_ray_use_token, make_token, use_mode
from runtime.engine.process.process_watch import ToldToEnd
from runtime.settings import Settings

PLACES = "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
"""Where Ray looks for a token."""

REACH_S = 2.0
"""How long a machine may take to answer."""


def prepare_joining(address: str) -> None:
    """Check that the Ray at `host:port` can be joined, and have this process use its token if it wants one.

    With RAY_AUTH_MODE the user has decided. Without it, a token is used where one is found and the cluster asks for it, and the
    variable says so until the caller sets it back.

    Raises:
        ClusterError: the Ray cannot be joined, with the reason. The variable may be set all the same.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "://" in address:
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except OSError as error:
        raise ClusterError(f"no Ray at {address!r} can be used: nothing can be reached there ({error})") from error
    cluster = _asked(address)
    if cluster is not None:
        _check_versions(address, cluster)


def _asked(address: str) -> Versions | None:
    """The versions of a Ray, asked with a token if it wants one and RAY_AUTH_MODE leaves that open; None without an answer."""
    mode = os.environ.get(MODE)
    find_token_without_home()
    try:
        cluster = _ask(address)
    except AuthenticationError as error:
        # Not looked for before: Ray keeps a token that it has found, and uses it whatever the mode is.
        if mode is not None or not has_token():
            raise _refused(address, _missing_token(mode)) from error
    else:
        if mode is None and cluster is not None:
            # Ray itself would use any token that it finds, and fail in a cluster without.
            use_mode("disabled")
        return cluster
    use_mode("token")
    try:
        return _ask(address)
    except AuthenticationError as error:
        refusal = f"it does not accept the token that was found in {PLACES}: give the token of that cluster"
        raise _refused(address, refusal) from error


def _missing_token(mode: str | None) -> str:
    """Tell why a cluster refuses a program that has no token, or that has been told which to use."""
    if mode == "token":
        found = f"it does not accept the token in {PLACES}" if has_token() else f"there is no token in {PLACES}"
        return f"{found}: give the token of that cluster"
    if mode is None:
        return f"it wants a token, and there is none in {PLACES}: copy that file from the cluster's head, or set RAY_AUTH_TOKEN"
    return f"it wants a token, and {MODE}={mode} keeps this program from sending one: unset {MODE}"


def _ask(address: str) -> Versions | None:
    """Ask in a thread: Ray's client waits half a minute for what is no Ray. Raises AuthenticationError, ClusterError."""
    replies: SimpleQueue[Versions | RayError | None] = SimpleQueue()

    def put_reply() -> None:
        try:
            replies.put(ask_versions(address, REACH_S))
        except RayError as error:
            replies.put(error)

    Thread(target=put_reply, name="joining", daemon=True).start()
    try:
        reply = replies.get(timeout=REACH_S)
    except Empty:
        raise _refused(address, f"what listens there has not answered as Ray does within {REACH_S:g} s") from None
    if isinstance(reply, AuthenticationError):
        raise reply
    if isinstance(reply, RayError):
        raise _refused(address, f"what listens there is no Ray that runs ({reply})") from reply
    return reply


def _check_versions(address: str, cluster: Versions) -> None:
    here = ray.__version__, ".".join(map(str, sys.version_info[:3]))
    there = cluster.ray or here[0], cluster.python or here[1]
    if there[0] != here[0] or there[1].split(".")[:2] != here[1].split(".")[:2]:
        versions = f"it has Ray {there[0]} and Python {there[1]}, this program has Ray {here[0]} and Python {here[1]}"
        raise _refused(address, f"{versions}: install the same versions")


def _refused(address: str, reason: str) -> ClusterError:
    return ClusterError(f"the Ray at {address!r} cannot be joined: {reason}")


class Forks:
    """Keeps forks of this process from harming it.

    Attributes:
        is_fork: this process is a fork of one that used Ray, and cannot use Ray itself.
    """

    is_fork = False

    @classmethod
    def cut_off(cls) -> None:
        """Cut a fork, as it begins, off from Ray."""
        if not ray.is_initialized():
            return
        cls.is_fork = True
        detach()
        atexit.unregister(ray.shutdown)
        gc.freeze()
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "ray":
                for value in list(vars(module).values()):
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
        _skip_destructors()


def _skip_destructors() -> None:
    """Have the process end without the destructors of Ray's C++ objects, and with the status that it would have had."""
    libc = ctypes.CDLL(None)
    # Only glibc has a handler that gets the exit status.
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)


os.register_at_fork(after_in_child=Forks.cut_off)

LOCAL = "local"
"""Ray's address for a local Ray that this program starts."""

RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""Environment variable: how long a program waits for Ray's control service before Ray ends it, in seconds."""

RECONNECT_S = 60.0
"""That time by default."""

LEAVING_S = 25.0
"""How long before that a program leaves Ray, which takes 6 to 15 s then."""

OWN_PATIENCE_S = 10.0
"""How long it waits for that of a local Ray, which is never started again: a busy machine may be late."""

INSTEAD = "Start a cluster with 'ray start --head', and give its address"
"""What users can do where a local Ray of this program will not do."""


class RayConnection:
    """A share in the one connection that a process can have with Ray.

    All Runtimes of a process share the connection. The last of them closes a connection that they have opened, and with it a
    local Ray that was started for it; a connection that the program itself has opened stays.

    Args:
        address: of a cluster; "auto" looks for one on this machine; None uses the Ray that this process has initialised, or that
            RAY_ADDRESS names, or starts a local one.
        may_start: whether a local Ray may be started, which ends with this process.
        imported: modules that its workers are forked with.
    """

    _users: ClassVar[set[RayConnection]] = set()
    _is_own: ClassVar[bool] = False
    _mode_before: ClassVar[str | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, settings: Settings, address: str | None, *, may_start: bool = True, imported: Sequence[str] = ()) -> None:
        self._settings = settings
        self._address = address
        self._may_start = may_start
        self._imported = imported

    @property
    def is_open(self) -> bool:
        """Whether this process is connected with a Ray."""
        return ray.is_initialized()

    @property
    def address(self) -> str | None:
        """Where the Ray is that is used, as `host:port`; None while none is."""
        return str(ray.get_runtime_context().gcs_address) if self.is_open else None

    @property
    def patience_s(self) -> float:
        """The time that the control service may be away.

        A Ray of this program's own never gets it back. Others may, and before Ray ends this program there is time to leave.
        """
        if self._is_own:
            return OWN_PATIENCE_S
        given = os.environ.get(RECONNECT, "")
        ends_s = float(given) if given.isdecimal() else RECONNECT_S
        return max(ends_s - LEAVING_S, ends_s / 2)

    def open(self) -> None:
        """Connect to Ray, or start it, if need be. Raises ClusterError.

        Call it in the main thread, if possible: only there Ray handles SIGTERM with an orderly exit. Elsewhere, a driver that
        gets SIGTERM leaves processes of a local Ray behind.
        """
        if Forks.is_fork:
            raise ClusterError(
                "this process is a fork of one that uses Ray, and Ray cannot be used in it: start processes with 'spawn' instead"
            )
        if self._address not in (None, LOCAL, "auto"):
            # Also where the program has a Ray already, which is used then.
            check_address(self._address)
        connect_for_programs_only()
        with self._lock:
            if not ray.is_initialized():
                RayConnection._mode_before = os.environ.get(MODE)
                try:
                    self._connect()
                except BaseException:
                    use_mode(self._mode_before)
                    raise
                self._users.clear()
            elif not self._users:
                # The program itself has connected before any Runtime did.
                return
            self._users.add(self)

    def close(self) -> None:
        """Give up the share; the last one disconnects. Closing twice is no error."""
        with self._lock:
            if self not in self._users:
                return
            self._users.remove(self)
            if not self._users:
                self._end()

    def abandon(self) -> None:
        """Disconnect for all Runtimes of this process, unless the program itself has connected.

        The control service does not come back, and Ray ends programs that wait for it.
        """
        with self._lock:
            if self in self._users:
                self._users.clear()
                self._end()

    def _end(self) -> None:
        ray.shutdown()
        RayConnection._is_own = False
        # Whether the next Ray wants a token is another question.
        use_mode(self._mode_before)

    def _connect(self) -> None:
        # Without an address, Ray would use the cluster that was started last on this machine: another user's perhaps, or gone.
        address = self._address or os.environ.get("RAY_ADDRESS") or LOCAL
        if not self._may_start and address == LOCAL:
            raise ClusterError(f"a Ray that this program starts would end with it. {INSTEAD}")
        if address == LOCAL:
            self._init(address, "on this machine")
            return
        if address == "auto":
            address = find_ray()
        check_address(address)
        prepare_joining(address)
        self._init(address, f"at {address!r}")

    def _init(self, address: str, where: str) -> None:
        settings, is_own = self._settings, address == LOCAL
        is_tested()
        print_no_stack()
        try:
            hide_noise()
            if is_own:
                make_token()
                have_local_ray_use_token()
            with ToldToEnd.noting(), starting_ray(settings.local_ray, self._imported) if is_own else nullcontext():
                ray.init(
                    address=address,
                    _temp_dir=folder_of_ray() if is_own else None,
                    namespace=settings.namespace,
                    num_cpus=settings.num_cpus if is_own else None,
                    include_dashboard=False if is_own else None,
                    log_to_driver=settings.log_to_driver,
                    logging_level=logging.ERROR,
                )
                RayConnection._is_own = is_own
        except (OSError, RuntimeError, ValueError, RayError) as error:
            raise ClusterError(f"no Ray {where} can be used: {error}") from error


def check_address(address: str) -> None:
    """Check that a text is the address of a Ray. Raises ClusterError."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ClusterError(f"{address!r} is no address of a Ray: give host:port, such as 127.0.0.1:6379")


def find_ray() -> str:
    """The address of the Ray that runs on this machine. Raises ClusterError."""
    try:
        return running_address()
    except ConnectionError as error:
        raise ClusterError(f"no Ray was found on this machine. {INSTEAD}") from error
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise ClusterError(f"no Ray was found on this machine: {error}. {INSTEAD}") from error


@contextmanager
def held_connection(settings: Settings, address: str) -> Iterator[None]:
    """Stay connected with a Ray during the block, whichever engines end in it. Raises ClusterError."""
    connection = RayConnection(settings, address, may_start=False)
    connection.open()
    try:
        yield
    finally:
        connection.close()
