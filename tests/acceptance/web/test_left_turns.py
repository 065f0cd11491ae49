"""A client that leaves, of whichever route: its turn sends the server no more news, and goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from actors import Content, LlmAgent, LlmRequest, LlmResponse, LongRunningFunctionTool
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from runtime.frontends.web.app import ADK_OPERATIONS, OPERATIONS
from runtime.frontends.web.operation import HttpOperation
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S
from tests.support.vectors.vector_agents import lro

STREAMING = [each for each in (*OPERATIONS, *ADK_OPERATIONS) if each.streams]
WAITING = [each for each in (*OPERATIONS, *ADK_OPERATIONS) if (each.streams and each.method == "POST") or each.path == "/run"]
"""Those that wait for the end of the turn where no stream is asked for."""


class Held:
    """A model that calls a tool or fails where the message says so, else it answers when it may."""

    def __init__(self) -> None:
        self.asked, self.may_answer, self.has_failed = threading.Event(), threading.Event(), False

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        text = request.contents[-1].text
        if text == "ask":
            yield LlmResponse(content=Content.from_dict({"role": "model", "parts": [{"functionCall": {"name": "lro"}}]}))
            return
        if text == "fail" and not self.has_failed:
            self.has_failed = True
            raise KeyError("customer")
        self.asked.set()
        await asyncio.to_thread(self.may_answer.wait, TIMEOUT_S)
        yield LlmResponse(content=Content.of_text("done", role="model"))


@pytest.fixture(scope="module")
def model() -> Held:
    return Held()


@pytest.fixture(scope="module")
def rt(model: Held, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    root = LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(lro)])
    with Deploy("local", tmp_path_factory.mktemp("stores"))(root, app_name="desk") as rt:
        # All turns that a program has begun share the subscriber of the first one.
        rt.run(user_id="first", session_id="s", message="ask").result()
        yield rt


@pytest.fixture(autouse=True)
def held(model: Held) -> Iterator[None]:
    """No model answers until the test says so."""
    model.asked.clear()
    model.may_answer.clear()
    model.has_failed = False
    yield
    model.may_answer.set()


@pytest.fixture
def detached(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a turn is followed no more. Those that a program has begun share a subscriber, so their number does not say it."""
    event, detach = threading.Event(), Turn.detach

    def noted(turn: Turn) -> None:
        event.set()
        detach(turn)

    monkeypatch.setattr(Turn, "detach", noted)
    return event


async def subscribers(rt: Runtime) -> int:
    return (await rt.aio.statistics()).session.counts["subscribers"]


async def request_of(operation: HttpOperation, client: httpx2.AsyncClient, rt: Runtime, user: str) -> httpx2.Request:
    """A request about a turn that is there as far as the operation needs it."""
    path, body = operation.path, {"message": "hi"}
    if operation.path.startswith("/run"):
        await rt.aio.sessions.create(user, "s")
        message = {"role": "user", "parts": [{"text": "hi"}]}
        adks: dict[str, Any] = {"appName": "desk", "userId": user, "sessionId": "s", "newMessage": message}
        return client.build_request(operation.method, path, json=adks)
    if path.endswith("/answers"):
        await rt.run(user_id=user, session_id="s", message="ask", invocation_id="t")
        [asked] = await rt.aio.turns.pending(user)
        body = {"answers": {asked.call_id: "yes"}}  # type: ignore[dict-item]
    elif path.endswith("/retry"):
        with pytest.raises(Exception, match="customer"):
            await rt.run(user_id=user, session_id="s", message="fail", invocation_id="t")
    elif not path.endswith("/turns"):
        turn = rt.run(user_id=user, session_id="s", message="hi", invocation_id="t", on_leave="continue")
        await turn.aio.started()
        turn.detach()
    url = path.format(app="desk", session="s", turn="t")
    return client.build_request(operation.method, f"{url}?user={user}", json=body if operation.method == "POST" else None)


async def check_left(rt: Runtime, model: Held, user: str, before: int) -> None:
    """Nothing is sent to the server about the turn, which runs, and goes on to its end."""
    async with asyncio.timeout(TIMEOUT_S):
        while await subscribers(rt) > before:
            pass
    [turn] = rt.turns.list(user)
    assert turn.state == "running"
    model.may_answer.set()
    result = await rt.attach(user_id=user, session_id="s", invocation_id=turn.invocation_id)
    assert result.text == "done"


def name_of(operation: HttpOperation) -> str:
    return f"{operation.method} {operation.path.replace('/', ' ')}"


@pytest.mark.parametrize("operation", STREAMING, ids=name_of)
async def test_a_client_leaves_a_stream(
    operation: HttpOperation, client: httpx2.AsyncClient, rt: Runtime, model: Held, user: str, detached: threading.Event
) -> None:
    request = await request_of(operation, client, rt, user)
    before = await subscribers(rt)
    detached.clear()
    request.headers["accept"] = "text/event-stream"
    response = await client.send(request, stream=True)
    assert response.headers["content-type"].startswith("text/event-stream")
    await anext(response.aiter_lines())
    await asyncio.to_thread(model.asked.wait, TIMEOUT_S)
    await response.aclose()
    if not operation.path.endswith("{session}/events"):
        assert await asyncio.to_thread(detached.wait, TIMEOUT_S)
    await check_left(rt, model, user, before)


@pytest.mark.parametrize("operation", WAITING, ids=name_of)
async def test_a_client_leaves_while_it_waits_for_the_end(
    operation: HttpOperation, client: httpx2.AsyncClient, rt: Runtime, model: Held, user: str, detached: threading.Event
) -> None:
    request = await request_of(operation, client, rt, user)
    before = await subscribers(rt)
    detached.clear()
    waiting = asyncio.create_task(client.send(request))
    await asyncio.to_thread(model.asked.wait, TIMEOUT_S)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await asyncio.to_thread(detached.wait, TIMEOUT_S)
    await check_left(rt, model, user, before)
