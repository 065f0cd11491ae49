"""A server with more to do than it can refuses new turns before it reads them, and serves everything else."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
import uvloop
from starlette.applications import Starlette

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.refused_lines import PROBE_S
from runtime.frontends.web.api.waiting import result_of
from runtime.frontends.web.connections import ConnectionLimits
from runtime.frontends.web.serving import ACCEPTED_AT_ONCE, WebServer
from runtime.frontends.web.shedding import AT_ONCE, RESPONSE, PassLines, Shedding, body_to_come
from runtime.settings import Settings
from runtime.web import app_for
from tests.support.runtimes import Deploy
from tests.support.servers.web_load import RETRY_AFTER, Caller, address_of, request, turn_request
from tests.support.servers.web_server import TIMEOUT_S, serving

TURNS = "/v1/apps/desk/sessions/s/turns?user=ada"


def turns_of(session: str) -> str:
    return f"/v1/apps/desk/sessions/{session}/turns?user=ada"


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
    shedding = Shedding(lambda again, unread: None, lambda unread: None)

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
    ("data", "to_come"),
    [
        (turn_request(TURNS, "hi"), 0),
        (request("POST", "/run_sse", b"{}"), 0),
        (request("POST", "/v1/apps/desk/sessions/a%2Fturns", b"{}"), None),
        (request("POST", "/v1/apps/desk/sessions", b"{}"), None),
        (request("GET", TURNS), None),
        (turn_request(TURNS, "hi")[:-1], 1),
        (turn_request(TURNS, "hi").partition(b"{")[0], len(b'{"message":"hi"}')),
        (request("POST", TURNS, b"{}", Connection="keep-alive"), 0),
        (request("POST", TURNS, b"{}", Connection="keep-alive, upgrade"), None),
        (request("POST", TURNS, b" " * 70_000)[:1_000], None),
        (turn_request(TURNS, "hi") + b"G", None),
        (turn_request(TURNS, "hi") * 2, None),
        (request("POST", TURNS, b"{}", Origin="https://a.example"), None),
        (request("POST", TURNS, b"{}", Connection="close"), None),
        (request("POST", TURNS, b"{}", Expect="100-continue"), None),
        (request("POST", TURNS, b"{}", Transfer_Encoding="chunked"), None),
        (request("POST", TURNS, b"{}", **{"Content-Length ": "9"}), None),
        (request("POST", TURNS, b"{}", X="a\r\n b: c"), None),
        (request("POST", TURNS, b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"), None),
        (request("POST", TURNS, b"{}").replace(b"Content-Length: 2", b"Content-Length: +2"), None),
    ],
)
def test_only_one_plain_request_whose_body_is_small_is_answered_unread(data: bytes, to_come: int | None) -> None:
    assert body_to_come(data) == to_come


class HeldModel:
    """Answers when it may."""

    def __init__(self) -> None:
        self.is_called, self.may_answer = threading.Event(), threading.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.is_called.set()
        await asyncio.to_thread(self.may_answer.wait, TIMEOUT_S)
        yield LlmResponse(content=Content.of_text("ok", role="model"))


def waits_until(rt: Runtime, waiting: int) -> None:
    """Wait until so many turns wait to begin."""
    until_s = time.monotonic() + TIMEOUT_S
    while rt.statistics().runner.counts["waiting"] != waiting:
        assert time.monotonic() < until_s


def test_while_the_lines_are_full_new_turns_are_refused_unread_and_repeats_are_joined(tmp_path: Path) -> None:
    model = HeldModel()
    deploy = Deploy("local", tmp_path)
    settings = Settings(max_waiting_turns=1)
    root = LlmAgent(name="root", model=model)

    async def ask(url: str, app: Starlette) -> None:
        caller = await Caller.to(url)
        refused = [await caller.exchange(turn_request(TURNS, "hi")) for _ in range(20)]
        for status, head, body in refused:
            found = json.loads(body)
            assert (status, found["type"], found["title"]) == (429, "OverloadedError", "As much waits as may")
            assert "ask again in " in found["detail"]
            assert int(RETRY_AFTER.search(head)[1]) >= 1  # type: ignore[index]
        unread = app.state.shedding.refused_at_limits
        assert 0 < unread < 20, "the first one tells that the line is full"
        assert "max_waiting_turns allows no more" in json.loads(refused[0][2])["detail"]
        assert sum(b"as many turns wait as may" in body for _, _, body in refused) == unread
        # Head and body apart, as many clients send them.
        head, _, body = turn_request(TURNS, "hi").partition(b"{")
        assert (await caller.exchange(head))[0] == 429
        caller._writer.write(b"{" + body)
        assert (await caller.exchange(request("GET", "/healthz")))[0] == 200
        joining = await Caller.to(url)
        joined = asyncio.create_task(joining.exchange(request("POST", TURNS, b'{"message":"hi"}', Idempotency_Key="two")))
        await asyncio.sleep(0)
        model.may_answer.set()
        assert (await joined)[0] == 200
        while (await caller.exchange(turn_request(TURNS, "hi")))[0] != 200:
            # A program asks for as many as have left, and now and then for one more.
            continue
        caller.close()
        joining.close()

    with deploy(root, app_name="desk", settings=settings) as rt:
        first = rt.run(user_id="ada", session_id="s", message="hi")
        assert model.is_called.wait(TIMEOUT_S)
        waits_until(rt, 0)
        second = rt.run(user_id="ada", session_id="s", message="hi", invocation_id="two")
        waits_until(rt, 1)
        app = app_for(rt)
        with serving(app) as url:
            asyncio.run(ask(url, app))
            metrics = httpx2.get(f"{url}/metrics", timeout=TIMEOUT_S).text
        assert f'operation="POST, refused unread",status="429"}} {app.state.shedding.refused_at_limits}\n' in metrics
        assert [first.result().text, second.result().text] == ["ok", "ok"]
        assert len(rt.turns.list("ada", "s", limit=100)) == 3


def test_while_all_places_are_taken_what_wants_one_is_refused_unread_and_what_does_not_is_served(tmp_path: Path) -> None:
    model = HeldModel()
    deploy = Deploy("local", tmp_path)

    async def ask(url: str, app: Starlette) -> None:
        waiting, caller = await Caller.to(url), await Caller.to(url)
        first = asyncio.create_task(waiting.exchange(turn_request(TURNS, "hi")))
        assert await asyncio.to_thread(model.is_called.wait, TIMEOUT_S)
        # Read first, or with an answer that is made of its headers, or the repeat of a turn that is there.
        for more in ({}, {"Connection": "keep-alive, x"}, {"Idempotency_Key": "one"}):
            status, head, body = await caller.exchange(request("POST", turns_of("other"), b'{"message":"hi"}', **more))
            assert (status, json.loads(body)["type"]) == (429, "TooManyStreamsError")
            assert json.loads(body)["detail"] == "as many streams are open as may be: ask again in 5 s"
            assert RETRY_AFTER.search(head)[1] == b"5"  # type: ignore[index]
        assert app.state.shedding.refused_at_limits == 3
        leaving = request("POST", turns_of("third"), b'{"message":"hi"}', Prefer="respond-async")
        assert (await caller.exchange(leaving))[0] == 202
        model.may_answer.set()
        assert (await first)[0] == 200
        assert (await caller.exchange(turn_request(turns_of("other"), "hi")))[0] == 200
        for each in (waiting, caller):
            each.close()

    with deploy(LlmAgent(name="root", model=model), app_name="desk") as rt:
        app = app_for(rt, max_streams=1)
        with serving(app) as url:
            asyncio.run(ask(url, app))


CALLERS, MAY_WAIT = 80, 10


def test_a_server_lets_no_more_turns_through_at_once_than_may_wait(tmp_path: Path) -> None:
    """Before any refusal of a Runner has come it knows what it has let through itself."""
    deploy = Deploy("local", tmp_path)
    root = LlmAgent(name="root", model=PatternModel([], default="ok"))

    async def ask(url: str) -> list[tuple[int, bytes]]:
        callers = [await Caller.to(url) for _ in range(CALLERS)]
        paths = [turns_of(f"s{number}") for number in range(CALLERS)]
        answers = await asyncio.gather(
            *(caller.exchange(turn_request(path, "hi")) for caller, path in zip(callers, paths, strict=True))
        )
        # Those that were refused, and those that waited unread, go on over the same connections.
        for caller in callers:
            while (await caller.exchange(turn_request(paths[0], "again")))[0] != 200:
                continue
            caller.close()
        return [(status, body) for status, _, body in answers]

    with deploy(root, app_name="desk", settings=Settings(max_waiting_turns=MAY_WAIT)) as rt:
        app = app_for(rt)
        with serving(app) as url:
            began_s = time.monotonic()
            answers = asyncio.run(ask(url))
            took_s = time.monotonic() - began_s
    refused = [body for status, body in answers if status == 429]
    assert len(refused) + sum(status == 200 for status, _ in answers) == CALLERS
    assert len(refused) > CALLERS / 4
    in_vain = sum(b"as many turns wait as may" not in body for body in refused)
    assert in_vain <= 1 + took_s / PROBE_S


async def test_a_client_that_leaves_while_its_request_waits_unread_holds_up_nobody(rt: Runtime) -> None:
    app = app_for(rt)
    server = WebServer(app, "127.0.0.1", 0)
    line = server.connections.shedding.line
    serving_it = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn tells it so only
        await asyncio.sleep(0.001)
    callers = [await Caller.to(server.url) for _ in range(2)]
    # As if others were before them, until they are let go on.
    line.add(lambda: None)
    assert len(line) == 1
    asked = [asyncio.create_task(caller.exchange(turn_request(turns_of(f"left-{n}"), "hi"))) for n, caller in enumerate(callers)]
    while len(line) < 3:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.001)
    callers[0]._writer.transport.abort()
    asked[0].cancel()
    await asyncio.wait([asked[0]])
    assert line.may_pass() is False
    line._next_pass()
    assert (await asked[1])[0] == 200
    assert len(line) == 0
    callers[1].close()
    server.should_exit = True
    await serving_it


def test_connections_that_come_at_once_are_taken_by_few_passes_of_the_loop(rt: Runtime) -> None:
    """libuv takes one a pass for each handle: while passes are long, the last of many would be refused after seconds."""

    async def passes(server: WebServer) -> int:
        serving_it = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn tells it so only
            await asyncio.sleep(0.001)
        found = 0
        with ExitStack() as stack:
            for _ in range(2 * ACCEPTED_AT_ONCE):
                # The kernel does this alone: the loop has no pass meanwhile.
                stack.enter_context(socket.create_connection(address_of(server.url)))
            while len(server.connections) < 2 * ACCEPTED_AT_ONCE:
                found += 1
                await asyncio.sleep(0)
        server.should_exit = True
        await serving_it
        return found

    assert uvloop.run(passes(WebServer(app_for(rt), "127.0.0.1", 0))) < ACCEPTED_AT_ONCE / 2


async def test_turns_that_end_at_once_are_answered_a_few_in_each_pass_of_the_loop(rt: Runtime) -> None:
    call = SimpleNamespace(served=SimpleNamespace(lines=PassLines()))
    turns = [rt.run(user_id="ada", session_id=f"ends-{number}", message="hi") for number in range(3 * AT_ONCE)]
    await asyncio.gather(*turns)
    answers = [asyncio.create_task(result_of(call, turn)) for turn in turns]  # type: ignore[arg-type]
    before = 0
    while before < len(turns):
        await asyncio.sleep(0)
        done = sum(answer.done() for answer in answers)
        assert done <= before + AT_ONCE
        before = done


def test_the_bytes_that_stand_ready_are_a_response() -> None:
    head, _, body = RESPONSE.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head.split(b"\r\n")
