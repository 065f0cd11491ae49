"""A server with more to do than it can refuses new turns before it reads them, and serves everything else."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
from starlette.applications import Starlette

from runtime import Runtime
from runtime.frontends.web.connections import ConnectionLimits
from runtime.frontends.web.shedding import RESPONSE, Shedding, is_whole_start
from runtime.web import app_for
from tests.support.servers.web_load import Caller, request, turn_request
from tests.support.servers.web_server import TIMEOUT_S, serving

TURNS = "/v1/apps/desk/sessions/s/turns?user=ada"
BUSY = [(1.0, 1_000)] * 6
"""Looks at a loop that is late and has had many requests, until it refuses all new turns."""


@contextmanager
def busy(rt: Runtime, **options: object) -> Iterator[tuple[str, Starlette]]:
    """A server that refuses every new turn, as long as little else comes."""
    app = app_for(rt, **options)  # type: ignore[arg-type]
    with serving(app) as url:
        keep_busy(app.state.shedding)
        yield url, app


def keep_busy(shedding: Shedding) -> None:
    for look in BUSY:
        shedding._rule.look(*look)
    # As if each look found the same.
    shedding._rule.look = lambda late_s, requests: None  # type: ignore[method-assign]
    assert shedding._rule.share == 1


@pytest.mark.parametrize(
    "path",
    [TURNS, f"{TURNS.partition('?')[0]}/t/answers", f"{TURNS.partition('?')[0]}/t/retry?user=ada", "/run", "/run_sse"],
)
def test_new_turns_are_refused_over_a_connection_that_goes_on(rt: Runtime, path: str) -> None:
    async def ask(url: str) -> None:
        caller = await Caller.to(url)
        for _ in range(2):
            status, head, body = await caller.exchange(turn_request(path, "hi"))
            assert (status, json.loads(body)["type"]) == (503, "ServerBusyError")
            assert b"\r\nretry-after: 1\r\n" in head
        assert (await caller.exchange(request("GET", "/healthz")))[0] == 200
        assert (await caller.exchange(turn_request(path, "hi")))[0] == 503
        caller.close()

    with busy(rt) as (url, app):
        asyncio.run(ask(url))
        metrics = httpx2.get(f"{url}/metrics", timeout=TIMEOUT_S).text
    assert app.state.shedding.refused == 3
    assert 'raygrove_web_requests_total{operation="POST, refused unread",status="503"} 3' in metrics


def test_everything_else_is_served(rt: Runtime) -> None:
    with busy(rt) as (url, app):
        place = f"{url}/v1/apps/desk/sessions"
        assert httpx2.post(f"{place}?user=ada", json={"id": "s"}, timeout=TIMEOUT_S).status_code == 201
        assert httpx2.get(f"{url}{TURNS}", timeout=TIMEOUT_S).json()["turns"] == []
        assert httpx2.delete(f"{place}/s?user=ada", timeout=TIMEOUT_S).status_code == 204
        assert app.state.shedding.refused == 0


def test_pages_of_other_sites_get_to_read_the_refusal(rt: Runtime) -> None:
    with busy(rt, allowed_origins=["https://desk.example.com"]) as (url, app):
        answer = httpx2.post(
            f"{url}{TURNS}", json={"message": "hi"}, headers={"Origin": "https://desk.example.com"}, timeout=TIMEOUT_S
        )
        assert (answer.status_code, answer.json()["type"]) == (503, "ServerBusyError")
        assert answer.headers["access-control-allow-origin"] == "https://desk.example.com"
        assert app.state.shedding.refused == 1


def test_a_connection_that_is_only_refused_is_not_taken_for_one_that_says_nothing(rt: Runtime) -> None:
    app = app_for(rt)
    longest_s = 0.2

    async def ask(url: str) -> set[int]:
        caller = await Caller.to(url)
        found, began_s = set(), time.monotonic()
        while time.monotonic() - began_s < 2 * longest_s:
            found.add((await caller.exchange(turn_request(TURNS, "hi")))[0])
        caller.close()
        return found

    with serving(app, ConnectionLimits(head_timeout_s=longest_s)) as url:
        keep_busy(app.state.shedding)
        assert asyncio.run(ask(url)) == {503}


def test_a_loop_that_is_late_with_many_requests_refuses_some_and_soon_none(rt: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    shedding = Shedding()

    async def many() -> int:
        refused = 0
        for _ in range(8):
            for _ in range(50):
                shedding.note_request()
                refused += shedding.refuses()
            time.sleep(0.15)  # noqa: ASYNC251 - a loop that is held up by its work
            await asyncio.sleep(0)
        while shedding.is_on:  # noqa: ASYNC110 - only looks at the loop tell of it
            await asyncio.sleep(0)
        return refused

    with caplog.at_level(logging.WARNING, "runtime.frontends.web.shedding"):
        refused = asyncio.run(many())
    assert 0 < refused < 400
    assert refused == shedding.refused
    assert [record.getMessage() for record in caplog.records] == [
        "this server has too much to do: 1 new turns were refused unread so far"
    ]
    assert not shedding.refuses()


@pytest.mark.parametrize(
    ("data", "is_whole"),
    [
        (turn_request(TURNS, "hi"), True),
        (request("POST", "/run_sse", b"{}"), True),
        (request("POST", "/v1/apps/desk/sessions/a%2Fturns", b"{}"), False),
        (request("POST", "/v1/apps/desk/sessions", b"{}"), False),
        (request("GET", TURNS), False),
        (turn_request(TURNS, "hi")[:-1], False),
        (turn_request(TURNS, "hi") + b"G", False),
        (turn_request(TURNS, "hi") * 2, False),
        (request("POST", TURNS, b"{}", Origin="https://a.example"), False),
        (request("POST", TURNS, b"{}", Connection="close"), False),
        (request("POST", TURNS, b"{}", Expect="100-continue"), False),
        (request("POST", TURNS, b"{}", Transfer_Encoding="chunked"), False),
        (request("POST", TURNS, b"{}", **{"Content-Length": "9"}), False),
        (request("POST", TURNS, b"{}", **{"Content-Length ": "9"}), False),
        (request("POST", TURNS, b"{}", X="a\r\n b: c"), False),
        (request("POST", TURNS, b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (request("POST", TURNS, b"{}").replace(b"Content-Length: 2", b"Content-Length: +2"), False),
    ],
)
def test_only_one_whole_plain_request_is_answered_unread(data: bytes, is_whole: bool) -> None:
    assert is_whole_start(data) is is_whole


def test_the_bytes_that_stand_ready_are_a_response() -> None:
    head, _, body = RESPONSE.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head.split(b"\r\n")
