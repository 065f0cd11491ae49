"""Turns over HTTP: started, streamed, left, joined, cancelled, repeated and answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.web.api import waiting
from runtime.settings import Settings
from runtime.web import app_for
from tests.support.agents.web_agents import Gate
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.servers.web_server import TIMEOUT_S, Frame, all_frames, frames, serving
from tests.support.stores.sqlite_lock import SqliteLock

SSE = {"Accept": "text/event-stream"}


@pytest.fixture
def turns(user: str) -> str:
    return f"/v1/apps/desk/sessions/s%2F1/turns?user={user}"


def path(turns: str, *parts: str) -> str:
    before, _, query = turns.partition("?")
    return "/".join([before, *parts]) + f"?{query}"


@asynccontextmanager
async def streaming(
    client: httpx2.AsyncClient, method: str, url: str, **options: Any
) -> AsyncIterator[tuple[AsyncIterator[Frame], httpx2.Response]]:
    headers = {**SSE, **options.pop("headers", {})}
    async with client.stream(method, url, headers=headers, **options) as response:
        yield frames(response), response


async def test_a_turn_is_waited_for(client: httpx2.AsyncClient, turns: str) -> None:
    done = await client.post(turns, json={"message": "hi", "stateDelta": {"mood": "good"}})
    result = done.json()
    assert (done.status_code, result["state"], result["text"], result["agent"]) == (200, "finished", "hello", "concierge")
    assert [event["author"] for event in result["events"]] == ["concierge"]
    assert done.headers["location"] == path(turns, result["invocationId"])
    info = (await client.get(done.headers["location"])).json()["turn"]
    assert (info["state"], info["firstSeq"], info["lastSeq"]) == ("finished", 1, 2)
    session = (await client.get(path(turns.replace("/turns", "")))).json()
    assert (session["state"], session["headSeq"], session["id"]) == ({"mood": "good"}, 2, "s/1")


async def test_a_turn_is_streamed_with_pieces_and_an_end(client: httpx2.AsyncClient, turns: str, gate: Gate) -> None:
    gate.let(99)
    async with streaming(client, "POST", turns, json={"message": gate.name}) as (stream, response):
        got = [frame async for frame in stream]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert [(frame.kind, frame.id) for frame in got[-2:]] == [("event", "2"), ("end", "")]
    assert "".join(text(frame) for frame in got if frame.kind == "partial") == "one two three four"
    assert got[-1].data == {"invocationId": got[0].data["invocationId"], "state": "finished"}


async def test_a_client_that_leaves_cancels_nothing_and_comes_back_for_the_rest(
    client: httpx2.AsyncClient, turns: str, gate: Gate
) -> None:
    async with streaming(client, "POST", turns, json={"message": gate.name}) as (stream, response):
        gate.let()
        assert text(await anext(stream)) == "one "
    place = response.headers["content-location"]
    gate.let()
    async with streaming(client, "GET", path(turns, *place.split("/")[-2:])) as (stream, _):
        assert text(await anext(stream)) in ("one ", "one two ")
        gate.let(99)
        got = [frame async for frame in stream]
    assert [frame.kind for frame in got[-2:]] == ["event", "end"]
    assert text(got[-2]) == "one two three four"
    last = {"Last-Event-ID": got[-2].id}
    async with streaming(client, "GET", path(turns, *place.split("/")[-2:]), headers=last) as (stream, _):
        assert [frame.kind async for frame in stream] == ["end"]


async def test_streams_that_were_left_hold_nothing(client: httpx2.AsyncClient, turns: str, gate: Gate, rt: Runtime) -> None:
    begun = await client.post(turns, json={"message": gate.name}, headers={"Prefer": "respond-async"})
    place, events = path(turns, begun.json()["invocationId"], "events"), path(turns.replace("/turns", "/events"))
    async with streaming(client, "POST", turns.replace("s%2F1", "other"), json={"message": "hi"}) as (stream, _):
        assert [frame.kind async for frame in stream][-1] == "end"
    before = await rt.aio.statistics()
    for _ in range(3):
        for url in (place, events):
            async with streaming(client, "GET", url) as (_, response):
                assert await anext(response.aiter_lines()) == "retry: 1000"
    async with asyncio.timeout(TIMEOUT_S):
        while (after := await rt.aio.statistics()).session.counts["subscribers"] > before.session.counts["subscribers"]:
            assert after.session.counts["subscribers"] <= before.session.counts["subscribers"] + 6
    assert "raygrove_web_streams 0" in (await client.get("/metrics")).text


async def test_a_turn_goes_on_in_the_background_and_is_cancelled_with_its_log_sealed(
    client: httpx2.AsyncClient, turns: str, gate: Gate, rt: Runtime, user: str
) -> None:
    accepted = await client.post(turns, json={"message": gate.name}, headers={"Prefer": "respond-async"})
    assert accepted.status_code == 202
    place = accepted.headers["location"]
    assert (await client.get(place)).json()["turn"]["state"] == "running"
    running = await client.get(path(turns, accepted.json()["invocationId"], "result") + "&wait=0.01")
    assert (running.status_code, running.json()["turn"]["state"]) == (202, "running")
    # The next turn waits in the line of the session, and can be joined and cancelled there.
    second = await client.post(turns, json={"message": "hi"}, headers={"Prefer": "respond-async", "Idempotency-Key": "second"})
    assert (second.status_code, (await client.get(path(turns, "second"))).json()["turn"]["state"]) == (202, "waiting")
    async with streaming(client, "GET", path(turns, "second", "events")) as (stream, _):
        assert (await client.delete(path(turns, "second"))).json()["state"] == "cancelled"
        assert [(frame.kind, frame.data["state"]) async for frame in stream] == [("end", "cancelled")]
    cancelled = (await client.delete(place)).json()
    assert cancelled["state"] == "cancelled"
    result = (await client.get(path(turns, accepted.json()["invocationId"], "result"))).json()
    assert (result["state"], result["error"]["type"]) == ("cancelled", "TurnCancelledError")
    assert rt.turns.get(user, "s/1", accepted.json()["invocationId"]).state == "cancelled"


async def test_the_same_idempotency_key_joins_the_same_turn(client: httpx2.AsyncClient, turns: str) -> None:
    key = {"Idempotency-Key": "order 42"}
    both = await asyncio.gather(*(client.post(turns, json={"message": "hi"}, headers=key) for _ in range(2)))
    assert len({done.json()["events"][0]["id"] for done in both}) == 1
    assert [done.json()["invocationId"] for done in both] == ["order 42"] * 2
    for last, rest in (("1", [("event", "2"), ("end", "")]), ("2", [("end", "")])):
        again = {**key, "Last-Event-ID": last}
        async with streaming(client, "POST", turns, json={"message": "hi"}, headers=again) as (stream, _):
            assert [(frame.kind, frame.id) async for frame in stream] == rest
    events = (await client.get(path(turns.replace("/turns", "/events")))).json()["events"]
    assert [event["seq"] for event in events] == [1, 2]


BODY = {"message": "hi", "config": {"timeout": 30, "streaming": "sse"}}
OTHER_BODIES = (
    {"message": "bye", "config": BODY["config"]},
    {"message": "hi"},
    {**BODY, "stateDelta": {"mood": "good"}},
    {**BODY, "config": {"timeout": 30}},
)


async def test_the_same_idempotency_key_with_another_body_is_refused(
    client: httpx2.AsyncClient, turns: str, rt: Runtime, user: str
) -> None:
    key = {"Idempotency-Key": "order 43"}
    first = (await client.post(turns, json=BODY, headers=key)).json()
    for headers in (key, {**key, **SSE}, {**key, "Prefer": "respond-async"}):
        for body in OTHER_BODIES:
            refused = await client.post(turns, json=body, headers=headers)
            assert (refused.status_code, refused.json()["type"]) == (422, "RepeatMismatchError")
            assert "turn 'order 43' of session 's/1' began with another request" in refused.json()["detail"]
    # The order of fields and spaces mean nothing.
    again = b'{"config": {"streaming": "sse",   "timeout": 30.0}, "message": "hi"}'
    assert (await client.post(turns, content=again, headers={**key, "Content-Type": "application/json"})).json() == first
    # A key is that of one session of one user.
    elsewhere = [turns.replace("s%2F1", "s2"), turns.replace(f"user={user}", f"user={user}-other")]
    for place in elsewhere:
        assert (await client.post(place, json={"message": "bye"}, headers=key)).status_code == 200
    assert rt.turns.get(user, "s/1", "order 43").last_seq == 2


async def test_of_two_bodies_with_one_key_at_once_one_is_taken(
    client: httpx2.AsyncClient, turns: str, gate: Gate, rt: Runtime, user: str
) -> None:
    data = {"inlineData": {"mimeType": "text/plain", "data": "YQ=="}}

    def body(text: str) -> dict[str, Any]:
        return {"message": {"role": "user", "parts": [{"text": text}, data]}, "config": {"saveInputBlobsAsArtifacts": True}}

    async def post(key: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
        return await client.post(turns, json=body, headers={"Idempotency-Key": key, **headers})

    both = [body("hi"), body("bye"), {"message": "hi"}, {"message": "bye"}]
    for number, (one, other) in enumerate([both[:2], both[2:]] * 3):
        done = await asyncio.gather(post(f"k{number}", one), post(f"k{number}", other))
        assert sorted(each.status_code for each in done) == [200, 422]
        taken = one if done[0].status_code == 200 else other
        wanted = taken["message"] if isinstance(taken["message"], str) else taken["message"]["parts"][0]["text"]
        info = rt.turns.get(user, "s/1", f"k{number}")
        first = next(iter(rt.sessions.events(user, "s/1", after_seq=info.first_seq - 1, limit=1)))
        assert first.text.startswith(wanted)
    # Also while the turn is in the line of its session.
    await post("runs", {"message": gate.name}, Prefer="respond-async")
    assert (await post("waits", BODY, Prefer="respond-async")).status_code == 202
    assert rt.turns.get(user, "s/1", "waits").state == "waiting"
    assert [(await post("waits", each, Prefer="respond-async")).status_code for each in (BODY, OTHER_BODIES[0])] == [202, 422]


async def test_a_message_that_answers_a_call_while_another_turn_runs_blocks_no_other_request(
    client: httpx2.AsyncClient, turns: str, gate: Gate, rt: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "START_S", 0.0)
    paused = (await client.post(turns, json={"message": "ask"})).json()
    [call] = paused["pending"]
    await client.post(turns, json={"message": gate.name}, headers={"Prefer": "respond-async"})
    response = {"id": call["callId"], "name": call["name"], "response": {"ok": True}}
    message = {"role": "user", "parts": [{"functionResponse": response}]}
    answering = asyncio.ensure_future(client.post(turns, json={"message": message}, headers={"Prefer": "respond-async"}))
    async with asyncio.timeout(TIMEOUT_S):
        while not (await rt.aio.statistics()).runner.counts["waiting"]:
            assert (await client.get("/v1/apps")).status_code == 200
        for _ in range(10):
            assert (await client.get("/v1/apps")).status_code == 200
    assert not answering.done()
    gate.close()
    accepted = await answering
    assert (accepted.status_code, accepted.json()["invocationId"]) == (202, paused["invocationId"])


async def test_what_is_accepted_is_not_lost_when_the_store_is_away(tmp_path: Path) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="ok"))
    with (
        Deploy("local", tmp_path)(root, app_name="away", settings=Settings(store_timeout_s=waiting.START_S + 0.5)) as rt,
        serving(app_for(rt)) as url,
    ):
        run_turn(rt, "hi")
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            with SqliteLock(tmp_path / "sessions.db") as lock:
                turns, later = "/v1/apps/away/sessions/s1/turns?user=ada", {"Prefer": "respond-async"}
                refused = await client.post(turns, json={"message": "hi"}, headers=later)
                assert (refused.status_code, refused.json()["type"]) == (503, "StoreUnavailableError")
                lock.release()
            accepted = await client.post(turns, json={"message": "hi"}, headers=later)
            assert accepted.status_code == 202
            done = await client.get(path(turns, accepted.json()["invocationId"], "result") + "&wait=10")
            assert done.json()["state"] == "finished"
        assert [event.text for event in stored(rt)] == ["hi", "ok", "hi", "ok"]


async def test_a_pause_is_in_the_inbox_and_is_answered(client: httpx2.AsyncClient, turns: str, user: str) -> None:
    paused = (await client.post(turns, json={"message": "pay"})).json()
    assert (paused["state"], paused["pending"][0]["isConfirmation"]) == ("paused", True)
    inbox = (await client.get(f"/v1/apps/desk/pending?user={user}")).json()["calls"]
    [call] = inbox
    assert call == paused["pending"][0]
    answers = path(turns, paused["invocationId"], "answers")
    wrong = await client.post(answers, json={"answers": {"x": True}})
    assert (wrong.status_code, wrong.json()["type"]) == (400, "BadRequestError")
    assert call["callId"] in wrong.json()["detail"]
    async with streaming(client, "POST", answers, json={"answers": {call["callId"]: True}}) as (stream, _):
        got = [frame async for frame in stream]
    assert (got[-1].data["state"], got[-1].data["invocationId"]) == ("finished", paused["invocationId"])
    assert "paid 7" in text(got[-2])
    assert (await client.get(f"/v1/apps/desk/pending?user={user}")).json()["calls"] == []


async def test_a_failed_turn_says_which_error_and_no_traceback(client: httpx2.AsyncClient, turns: str) -> None:
    failed = await client.post(turns, json={"message": "fail"})
    assert (failed.status_code, failed.json()["state"], failed.json()["error"]["type"]) == (200, "failed", "AgentFailedError")
    async with client.stream("POST", turns, json={"message": "fail"}, headers=SSE) as response:
        got = await all_frames(response)
    assert (got[-1].kind, got[-1].data["state"]) == ("end", "failed")


async def test_a_turn_without_an_answer_says_why_and_one_whose_answer_was_cut_has_it(
    client: httpx2.AsyncClient, turns: str
) -> None:
    silent = (await client.post(turns, json={"message": "say nothing"})).json()
    assert (silent["state"], silent["errorCode"], "text" in silent) == ("finished", "MODEL_RETURNED_NO_CONTENT", False)
    assert silent["events"][-1]["errorMessage"]
    cut = (await client.post(turns, json={"message": "be cut"})).json()
    assert (cut["text"], cut["finishReason"], "errorCode" in cut) == ("Once upon", "MAX_TOKENS", False)


async def test_a_failed_turn_is_retried(client: httpx2.AsyncClient, turns: str) -> None:
    failed = (await client.post(turns, json={"message": "fail"})).json()
    again = await client.post(path(turns, failed["invocationId"], "retry"))
    assert (again.status_code, again.json()["state"], again.json()["invocationId"]) == (200, "failed", failed["invocationId"])
    async with streaming(client, "POST", path(turns, failed["invocationId"], "retry")) as (stream, _):
        assert [frame.kind async for frame in stream] == ["event", "end"]
    epochs = (await client.get(path(turns, failed["invocationId"]))).json()["turn"]["epoch"]
    assert epochs == 3
    done = (await client.post(turns, json={"message": "hi"})).json()
    refused = await client.post(path(turns, done["invocationId"], "retry"))
    assert (refused.status_code, refused.json()["type"]) == (409, "TurnStateError")
    assert "it is finished, and only a failed one can" in refused.json()["detail"]
    assert (await client.post(path(turns, "none", "retry"))).status_code == 404
    # From a step of it a finished one runs again.
    steps = [event["id"] for event in done["events"]]
    assert steps
    from_end = await client.post(path(turns, done["invocationId"], "retry") + f"&from={steps[-1]}")
    assert (from_end.status_code, from_end.json()["state"]) == (200, "finished")
    gone = await client.post(path(turns, done["invocationId"], "retry") + "&from=nothing")
    assert (gone.status_code, "it has no such event" in gone.json()["detail"]) == (400, True)


async def test_errors_before_a_turn_begins_are_statuses(client: httpx2.AsyncClient, turns: str, user: str) -> None:
    missing = f"/v1/apps/desk/sessions/none/turns/x?user={user}"
    for headers in ({}, SSE):
        gone = await client.post(turns, json={"message": "hi", "autoCreateSession": False}, headers=headers)
        assert (gone.status_code, gone.json()["type"]) == (404, "SessionNotFoundError")
        assert gone.headers["content-type"] == "application/problem+json"
    assert (await client.get(missing)).status_code == 404
    assert (await client.get(missing.replace("/x?", "/x/events?"), headers=SSE)).status_code == 404
    wrong = await client.post(turns, json={"message": {"parts": [{"txt": "hi"}]}})
    assert (wrong.status_code, wrong.json()["type"]) == (400, "InvalidMessageError")
    assert wrong.json()["detail"].startswith("message.parts[0] has no field 'txt'. Did you mean 'text'?")
    for body in ({}, {"message": 1}, {"message": "hi", "config": {"maxTransfers": -1}}, {"message": "hi", "config": {"x": 1}}):
        assert (await client.post(turns, json=body)).status_code == 400


def text(frame: Frame) -> str:
    return "".join(part.get("text", "") for part in frame.data["content"]["parts"])
