"""Clients that are slow, say nothing or are many hold nothing for long, and keep no other one out."""

from __future__ import annotations

import asyncio
import json
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx2
import pytest

from runtime.driver.runtime import Runtime
from runtime.frontends.web.bodies import BodyLimits
from runtime.frontends.web.connections import ConnectionLimits, HttpConnection
from runtime.web import Principal, StaticTokens, app_for
from tests.support.servers.web_load import Caller, address_of, request
from tests.support.servers.web_server import TIMEOUT_S, serving

pytestmark = pytest.mark.sampled(2, of="module")

ADA, BOB, DESK = (f"{name}-token-0123456789" for name in ("ada", "bob", "desk"))
TOKENS = {ADA: Principal(user_id="ada"), BOB: Principal(user_id="bob"), DESK: Principal()}
HOST = b"Host: localhost\r\n"
KIB = 1024


@contextmanager
def served(rt: Runtime, bodies: BodyLimits | None = None, **limits: float) -> Iterator[str]:
    app = app_for(rt, auth=StaticTokens(TOKENS), body_limits=bodies)
    with serving(app, ConnectionLimits(**limits)) as url:  # type: ignore[arg-type]
        yield url


def connected(url: str, said: bytes = b"") -> socket.socket:
    client = socket.create_connection(address_of(url), timeout=TIMEOUT_S)
    client.sendall(said)
    return client


def head(token: str, size: object, method: bytes = b"PUT") -> bytes:
    path = f" /v1/apps/desk/sessions/s/artifacts/a HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Length: {size}\r\n"
    return method + path.encode() + HOST + b"\r\n"


def get(token: str) -> bytes:
    return f"GET /v1/apps HTTP/1.1\r\nAuthorization: Bearer {token}\r\n".encode() + HOST + b"\r\n"


def answer(client: socket.socket) -> tuple[int, str]:
    """The status that comes and the type of its problem; (0, "") when the connection is closed without one."""
    response = b""
    try:
        while piece := client.recv(65_536):
            response += piece
            found = re.search(rb"content-length: (\d+)\r\n", response, re.IGNORECASE)
            if found and len(response.partition(b"\r\n\r\n")[2]) >= int(found[1]):
                break
    except ConnectionResetError:
        pass
    if not response:
        return 0, ""
    problem = json.loads(response.partition(b"\r\n\r\n")[2] or b"{}")
    return int(response.split()[1]), problem.get("type", "")


def status_with(url: str, token: str) -> int:
    return httpx2.get(f"{url}/v1/apps", headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT_S).status_code


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"", (0, "")),
        (b"GET /v1/apps HT", (408, "RequestTimeoutError")),
        (b"GET /v1/apps HTTP/1.1\r\nX: 1\r\n", (408, "RequestTimeoutError")),
    ],
)
def test_a_head_that_does_not_come_is_not_waited_for(rt: Runtime, said: bytes, expected: tuple[int, str]) -> None:
    with served(rt, head_timeout_s=0.2) as url, connected(url, said) as client:
        assert answer(client) == expected


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(rt: Runtime) -> None:
    with served(rt, head_timeout_s=0.3) as url, connected(url, b"GET /v1/apps HTTP/1.1\r\n") as client:
        client.settimeout(0.02)
        response = b""
        while not response:
            client.sendall(b"X: 1\r\n")
            try:
                response = client.recv(1_000)
            except TimeoutError:
                continue
        assert response.startswith(b"HTTP/1.1 408 ")


def test_the_head_of_a_later_request_is_not_waited_for(rt: Runtime) -> None:
    with served(rt, head_timeout_s=0.3) as url, connected(url, b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") as client:
        assert b" 200 " in client.recv(1_000)
        client.sendall(b"GET /heal")
        assert answer(client)[0] == 408


@pytest.mark.parametrize(
    "limits",
    [BodyLimits(1_000_000, timeout_s=0.2), BodyLimits(1_000_000, timeout_s=0.4, min_bytes_per_s=1_000_000_000)],
)
def test_a_body_that_does_not_come_is_not_waited_for(rt: Runtime, limits: BodyLimits) -> None:
    with served(rt, limits) as url, connected(url, head(ADA, 100_000) + b"x" * 10) as client:
        client.settimeout(0.02)
        response = b""
        # The head and the body of the response may come one after the other.
        while b"the body took too long" not in response:
            # Silent under the first limit, and slow under the second one.
            if limits.timeout_s > 0.3 and not response:
                client.sendall(b"x")
            with suppress(TimeoutError):
                piece = client.recv(1_000)
                assert piece, response
                response += piece
        assert response.startswith(b"HTTP/1.1 408 ")
        assert b"onnection: close" in response
        assert status_with(url, BOB) == 200


def test_the_body_of_a_refused_request_is_not_taken_for_ever(rt: Runtime) -> None:
    with served(rt) as url, connected(url, head("nobody-token-0123456", 100_000)) as client:
        assert answer(client) == (401, "NotAuthenticatedError")
        client.settimeout(0.05)
        with suppress(ConnectionError):
            rest = b"unknown"
            while rest:
                client.sendall(b"x")
                with suppress(TimeoutError):
                    rest = client.recv(1_000)


def test_silent_connections_keep_nobody_out(rt: Runtime) -> None:
    with served(rt, max_connections=20, max_unknown_per_client=1_000) as url, ExitStack() as stack:
        silent = [stack.enter_context(connected(url, b"GET /v1")) for _ in range(60)]
        assert status_with(url, ADA) == 200
        # The oldest of them have gone.
        assert answer(silent[0]) == (503, "TooManyConnectionsError")


def test_silent_connections_of_one_address_are_few(rt: Runtime) -> None:
    with served(rt, max_unknown_per_client=5) as url, ExitStack() as stack:
        clients = [stack.enter_context(connected(url)) for _ in range(20)]
        assert [answer(each) for each in clients[:15]] == [(503, "TooManyConnectionsError")] * 15
        # Known clients are not counted.
        known = [stack.enter_context(httpx2.Client(base_url=url)) for _ in range(8)]
        for _ in range(2):
            assert {each.get("/v1/apps", headers={"Authorization": f"Bearer {ADA}"}).status_code for each in known} == {200}


async def test_many_connections_that_come_in_one_moment_are_all_served(rt: Runtime) -> None:
    # From one address, as those of a proxy.
    asked = request("GET", "/v1/apps", Authorization=f"Bearer {ADA}")
    with served(rt, max_unknown_per_client=5) as url:
        callers: list[Caller] = []

        async def status() -> int:
            # It asks as soon as it is connected: one that says nothing for a while is closed, as it has no credentials yet.
            callers.append(caller := await Caller.to(url))
            return (await caller.exchange(asked))[0]

        statuses = await asyncio.gather(*(status() for _ in range(300)))
        for each in callers:
            each.close()
    assert statuses == [200] * 300


def test_known_connections_are_not_closed_for_others(rt: Runtime) -> None:
    with served(rt, max_connections=3) as url, ExitStack() as stack:
        busy = []
        for _ in range(3):
            busy.append(stack.enter_context(connected(url, head(ADA, 1) + b"x")))
            # Known now.
            assert answer(busy[-1])[0] == 201
            busy[-1].sendall(head(ADA, 1_000) + b"x")
        for _ in range(2):
            with connected(url) as other:
                assert answer(other) == (503, "TooManyConnectionsError")
        # One that still sends is not cut off: many clients would not read their answer then.
        with connected(url, head(ADA, 2_000)) as other:
            for _ in range(20):
                other.sendall(b"x" * 100)
                time.sleep(0.01)
            assert answer(other) == (503, "TooManyConnectionsError")
        for each in busy:
            each.sendall(b"x" * 999)
            assert answer(each)[0] == 201


def test_a_request_that_waits_for_its_answer_is_not_given_up_for_another_connection(rt: Runtime) -> None:
    auth = SlowAuth()
    asked = b"GET /v1/apps HTTP/1.1\r\n" + HOST + b"\r\n"
    with serving(app_for(rt, auth=auth), ConnectionLimits(max_connections=1)) as url, connected(url, asked) as first:
        assert auth.is_asked.wait(TIMEOUT_S)
        with connected(url) as other:
            assert answer(other) == (503, "TooManyConnectionsError")
        auth.may_answer.set()
        assert answer(first)[0] == 200


class SlowAuth:
    def __init__(self) -> None:
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    async def __call__(self, request: object) -> Principal:
        self.is_asked.set()
        await asyncio.to_thread(self.may_answer.wait, TIMEOUT_S)
        return Principal()


def test_bodies_of_all_requests_have_so_much_memory(rt: Runtime) -> None:
    limits = BodyLimits(1_000 * KIB, max_user_bytes=500 * KIB, max_total_bytes=800 * KIB)
    with served(rt, limits) as url, ExitStack() as stack:
        put = f"{url}/v1/apps/desk/sessions/s/artifacts/a"
        large = {"content": b"x" * 500 * KIB}

        def put_as(token: str, content: bytes) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx2.put(put, params={"user": "ada"} if token == DESK else None, headers=headers, content=content)

        assert put_as(ADA, large["content"]).is_success
        begun = head(ADA, 900 * KIB) + b"x" * 400 * KIB
        slow = stack.enter_context(connected(url, begun))
        refused = [put_as(ADA, large["content"])]
        while refused[-1].is_success:
            # What was sent has not been read yet; or it came while another body was still held, and is the one that was refused.
            if select.select([slow], [], [], 0)[0]:
                slow = stack.enter_context(connected(url, begun))
            refused.append(put_as(ADA, large["content"]))
        assert (refused[-1].status_code, refused[-1].headers["retry-after"]) == (429, "5")
        assert put_as(BOB, b"x" * 400 * KIB).is_success
        assert put_as(BOB, b"x" * 560 * KIB).status_code in (429, 503)
        # A back end may name any user, and has what there is: 464 KiB.
        assert put_as(DESK, b"x" * 700 * KIB).status_code == 503
        assert put_as(DESK, b"x" * 1_100 * KIB).status_code in (413, 503)
        # Small ones are always taken.
        assert put_as(ADA, b"small").is_success
        slow.close()
        while not put_as(ADA, large["content"]).is_success:
            continue


@pytest.mark.full
def test_a_client_that_reads_slowly_is_left(rt: Runtime) -> None:
    size = 20_000_000
    with served(rt, BodyLimits(2 * size), unread_timeout_s=0.3, min_bytes_per_s=10_000_000) as url:
        put = httpx2.put(
            f"{url}/v1/apps/desk/sessions/s/artifacts/a", headers={"Authorization": f"Bearer {BOB}"}, content=b"x" * size
        )
        assert put.is_success
        with connected(url, head(BOB, 0, b"GET")) as client:
            got = 0
            with suppress(ConnectionResetError):
                while piece := client.recv(1_000):
                    got += len(piece)
                    # Takes its time, and much more than a thousand bytes have.
                    assert httpx2.get(f"{url}/healthz").is_success
            assert got < size


def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(rt: Runtime) -> None:
    both = head(ADA, 5).removesuffix(b"\r\n") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with served(rt) as url, connected(url, both + b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") as client:
        assert answer(client)[0] == 400
        assert client.recv(1_000) == b""


def test_a_request_that_came_while_the_server_was_held_up_is_answered_though_its_connection_is_idle_for_too_long(
    rt: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, holds, is_held = HttpConnection.data_received, b"HOLD", threading.Event()

    def data_received(self: HttpConnection, data: bytes) -> None:
        if data == holds:
            is_held.set()
            time.sleep(0.5)
        else:
            received(self, data)

    monkeypatch.setattr(HttpConnection, "data_received", data_received)
    with served(rt, idle_timeout_s=0.3) as url, connected(url) as other, connected(url, asked := get(ADA)) as client:
        assert answer(client)[0] == 200
        for _ in range(3):
            # While it reads from another one, the server does nothing for longer than its connections may be idle.
            other.sendall(holds)
            assert is_held.wait(TIMEOUT_S)
            client.sendall(asked)
            assert answer(client)[0] == 200
            is_held.clear()
        # Without one it is closed.
        assert answer(client) == (0, "")


def test_idle_connections_are_kept_for_longer_than_clients_keep_them_and_closed_when_there_are_too_many(
    rt: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Proxies keep them for 60 s.
    assert ConnectionLimits().idle_timeout_s > 60
    with served(rt, max_connections=2) as url, connected(url, get(ADA)) as first, connected(url, get(ADA)) as second:
        assert (answer(first)[0], answer(second)[0]) == (200, 200)
        with connected(url, get(ADA)) as third:
            assert answer(third) == (503, "TooManyConnectionsError")
        monkeypatch.setattr("runtime.frontends.web.connections.IDLE_S", 0.0)
        # Servers that have looked in vain do so again a little later.
        time.sleep(0.1)
        with connected(url, get(ADA)) as third:
            assert answer(third)[0] == 200
        assert answer(first) == (0, "")
        second.sendall(get(ADA))
        assert answer(second)[0] == 200
