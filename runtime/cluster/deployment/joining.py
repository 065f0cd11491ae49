"""What must be right before a program connects to a Ray that runs: the address, the token and the versions.

Ray itself tries for twenty seconds and more, and then does not say which of them is wrong.
"""

from __future__ import annotations

import os
import socket
import sys
from queue import Empty, SimpleQueue
from threading import Thread

import ray
from ray.exceptions import AuthenticationError, RayError

from actors.errors import ClusterError
from runtime.cluster.ray.control_service import Versions, ask_versions
from runtime.cluster.ray.tokens import MODE, find_token_without_home, has_token, use_mode

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
