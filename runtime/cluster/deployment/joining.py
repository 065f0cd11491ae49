"""What must be right before a program connects to a Ray that runs: the address, the token and the versions.

Ray itself tries for twenty seconds and more, and then does not say which of them is wrong.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

import ray
from ray._raylet import AuthenticationTokenLoader, Config, GcsClient  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError, RayError

from actors.errors import ClusterError

MODE = "RAY_AUTH_MODE"
"""Environment variable: "token", "disabled", or not set."""

PLACES = "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
"""Where Ray looks for a token."""

REACH_S = 2.0
"""How long a machine may take to answer."""

_MADE_UP_CLUSTER = "00" * 27 + "01"
"""No cluster has this id."""

_NO_TOKEN = "InvalidAuthToken"
"""In what Ray's server says to a client without its token. What it says to a client of another cluster has the same class."""


class _Cluster(NamedTuple):
    """What a Ray says of itself: the versions of its Ray and its Python."""

    ray_version: str
    python_version: str


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
    _check_versions(address, _asked(address))


def _asked(address: str) -> _Cluster:
    """What a Ray says, asked with a token if it wants one and RAY_AUTH_MODE leaves that open."""
    mode = os.environ.get(MODE)
    try:
        cluster = _ask(address)
    except AuthenticationError as error:
        # Not looked for before: Ray keeps a token that it has found, and uses it whatever the mode is.
        if mode is not None or not _has_token():
            raise _refused(address, _missing_token(mode)) from error
    else:
        if mode is None:
            # Ray itself would use any token that it finds, and fail in a cluster without.
            use_mode("disabled")
        return cluster
    use_mode("token")
    try:
        return _ask(address)
    except AuthenticationError as error:
        refusal = f"it does not accept the token that was found in {PLACES}: give the token of that cluster"
        raise _refused(address, refusal) from error


def _has_token() -> bool:
    return bool(AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))


def _missing_token(mode: str | None) -> str:
    """What is wrong when a cluster refuses a program that has no token, or that has been told which to use."""
    if mode == "token":
        found = f"it does not accept the token in {PLACES}" if _has_token() else f"there is no token in {PLACES}"
        return f"{found}: give the token of that cluster"
    if mode is None:
        return f"it wants a token, and there is none in {PLACES}: copy that file from the cluster's head, or set RAY_AUTH_TOKEN"
    return f"it wants a token, and {MODE}={mode} keeps this program from sending one: unset {MODE}"


def use_mode(mode: str | None) -> None:
    """Have Ray send a token or not, in this process and in its children; with None, Ray decides."""
    if mode is None:
        os.environ.pop(MODE, None)
    else:
        os.environ[MODE] = mode
    Config.initialize("")


def _ask(address: str) -> _Cluster:
    """Ask in a thread: Ray's client waits half a minute for what is no Ray. Raises AuthenticationError, ClusterError."""
    replies: SimpleQueue[_Cluster | RayError] = SimpleQueue()

    def put_reply() -> None:
        try:
            _check_token(address)
            raw = GcsClient(address).internal_kv_get(b"CLUSTER_METADATA", namespace=b"cluster", timeout=REACH_S)
            told = json.loads(raw) if raw else {}
            replies.put(_Cluster(told.get("ray_version", ""), told.get("python_version", "")))
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


def _check_token(address: str) -> None:
    """Check that a Ray takes the token that this process sends, or its lack. Raises AuthenticationError, RpcError.

    A client without a cluster's id asks for it first, and Ray's C++ writes to the standard error when that is refused: it looks
    as if the program had failed. One that has an id is refused in silence, for the token, which comes first, or for the id.
    """
    try:
        GcsClient(address, cluster_id=_MADE_UP_CLUSTER).internal_kv_get(b"", namespace=b"cluster", timeout=REACH_S)
    except AuthenticationError as error:
        if _NO_TOKEN in str(error):
            raise


def _check_versions(address: str, cluster: _Cluster) -> None:
    here = ray.__version__, ".".join(map(str, sys.version_info[:3]))
    there = cluster.ray_version or here[0], cluster.python_version or here[1]
    if there[0] != here[0] or there[1].split(".")[:2] != here[1].split(".")[:2]:
        versions = f"it has Ray {there[0]} and Python {there[1]}, this program has Ray {here[0]} and Python {here[1]}"
        raise _refused(address, f"{versions}: install the same versions")


def _refused(address: str, reason: str) -> ClusterError:
    return ClusterError(f"the Ray at {address!r} cannot be joined: {reason}")
