"""Turns and connections leave nothing that only Python's collector of garbage finds: while it looks, a server answers nobody."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable

import pytest

from runtime.driver.runtime import Runtime
from tests.support.servers.web_load import address_of, request, turn_request
from tests.support.servers.web_server import TIMEOUT_S

pytestmark = pytest.mark.usefixtures("uncollected")

TIMES = 20
MOST_EACH = 2
"""Objects: what else goes on in the process may leave some."""

ROUNDS = 3
"""What each call leaves is found in all of them; what something else has left, such as the end of an earlier test, in one."""

Do = Callable[[Runtime, str, str, int], None]
"""Asks something of a deployment or its server, as a user, in the session of a number."""


def ask(url: str, request: bytes) -> None:
    """Send a request over a connection of its own, and read until the server closes it."""
    with socket.create_connection(address_of(url), TIMEOUT_S) as connection:
        connection.sendall(request)
        while connection.recv(65_536):
            pass


def run(rt: Runtime, url: str, user: str, number: int) -> None:
    assert list(rt.run(user_id=user, session_id=f"s{number}", message="hi"))


def post(rt: Runtime, url: str, user: str, number: int) -> None:
    asked = turn_request(f"/v1/apps/desk/sessions/p{number}/turns?user={user}", "hi")
    ask(url, asked.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))


def stream(rt: Runtime, url: str, user: str, number: int) -> None:
    path = f"/v1/apps/desk/sessions/t{number}/turns?user={user}"
    ask(url, request("POST", path, b'{"message": "hi"}', Accept="text/event-stream", Connection="close"))


def get(rt: Runtime, url: str, user: str, number: int) -> None:
    ask(url, request("GET", f"/v1/apps/desk/sessions/none?user={user}", Connection="close"))


def repeat(rt: Runtime, url: str, user: str, number: int) -> None:
    """The second of two requests with one key joins the turn of the first."""
    head = f"\r\nConnection: close\r\nIdempotency-Key: {user}-{number}\r\n".encode()
    for _ in range(2):
        asked = turn_request(f"/v1/apps/desk/sessions/r{number}/turns?user={user}", "hi")
        ask(url, asked.replace(b"\r\n", head, 1))


def invalid(rt: Runtime, url: str, user: str, number: int) -> None:
    ask(url, request("POST", f"/v1/apps/desk/sessions/i{number}/turns?user={user}", b'{"message": 3}', Connection="close"))


def fail(rt: Runtime, url: str, user: str, number: int) -> None:
    """An error of an actor comes to another thread."""
    ask(url, request("GET", f"/v1/apps/desk/sessions/f{number}/turns/none?user={user}", Connection="close"))


@pytest.mark.parametrize("do", [run, post, stream, get, repeat, invalid, fail], ids=lambda each: each.__name__)
def test_nothing_is_left_for_the_collector(rt: Runtime, url: str, user: str, do: Do) -> None:
    for number in range(2):
        do(rt, url, user, number)
    gc.collect()
    # What was there before is no garbage of these calls: to look through all that a run of tests has made takes half a second.
    gc.freeze()
    assert any(left_by(do, rt, url, user, first) < TIMES * MOST_EACH for first in range(0, ROUNDS * TIMES, TIMES))


def left_by(do: Do, rt: Runtime, url: str, user: str, first: int) -> int:
    """The objects that the collector finds after so many calls, in sessions from a number on."""
    for number in range(first, first + TIMES):
        do(rt, url, user, number)
    # The end of the last connection.
    do(rt, url, user, first + TIMES)
    return gc.collect()
