"""ADK's paths: a front end that speaks to `adk api_server` is served unchanged."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from actors import LlmAgent, ToolContext, tool
from actors.testing import ScriptedModel
from runtime.web import app_for
from tests.support.agents.web_agents import Gate
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S, all_frames, serving


@pytest.fixture
def sessions(user: str) -> str:
    return f"/apps/desk/users/{user}/sessions"


def run_body(user: str, message: object, **more: object) -> dict[str, Any]:
    new = {"role": "user", "parts": [{"text": message}]} if isinstance(message, str) else message
    return {"appName": "desk", "userId": user, "sessionId": "s", "newMessage": new, **more}


async def stream(client: httpx2.AsyncClient, body: dict[str, Any]) -> list[Any]:
    async with client.stream("POST", "/run_sse", json=body) as response:
        assert response.status_code == 200, await response.aread()
        got = await all_frames(response)
    assert {frame.kind for frame in got} == {"message"}
    return [frame.data for frame in got]


async def test_sessions_are_created_changed_read_listed_and_deleted(client: httpx2.AsyncClient, sessions: str) -> None:
    earlier = [{"author": "user", "content": {"role": "user", "parts": [{"text": "before"}]}}]
    made = await client.post(sessions, json={"session_id": "s", "state": {"a": 1}, "events": earlier})
    assert (made.json()["id"], made.json()["state"], made.json()["events"]) == ("s", {"a": 1}, [])
    assert (await client.post(sessions)).status_code == 200
    changed = (await client.patch(f"{sessions}/s", json={"stateDelta": {"b": 2}})).json()
    assert changed["state"] == {"a": 1, "b": 2}
    assert [event["actions"]["stateDelta"] for event in changed["events"]] == [{}, {"b": 2}]
    assert len((await client.get(sessions)).json()) == 2
    assert (await client.get(f"{sessions}/none")).status_code == 404
    assert (await client.delete(f"{sessions}/s")).json() is None
    assert (await client.get(f"{sessions}/s")).status_code == 404
    pretended = [{"author": "concierge", "longRunningToolIds": ["c"]}]
    assert (await client.post(sessions, json={"events": pretended})).status_code == 400


async def test_apps_are_listed_and_described(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/list-apps?relative_path=./")).json() == ["desk"]
    [app] = (await client.get("/list-apps?detailed=true")).json()["apps"]
    assert app == {"name": "desk", "rootAgentName": "concierge", "description": "Greets.", "language": "python"}
    agents = (await client.get("/apps/desk/app-info")).json()["agents"]
    assert {name: agent["sub_agents"] for name, agent in agents.items()} == {"concierge": ["billing"], "billing": []}
    assert (await client.get("/health")).json() == {"status": "ok"}
    assert (await client.get("/version")).json()["language"] == "python"


async def test_turns_are_run_and_streamed(client: httpx2.AsyncClient, sessions: str, user: str, gate: Gate) -> None:
    events = (await client.post("/run", json=run_body(user, "hi"))).json()
    assert [(event["author"], event["content"]["parts"]) for event in events] == [("concierge", [{"text": "hello"}])]
    gate.let(99)
    got = await stream(client, run_body(user, gate.name, streaming=True))
    assert [event.get("partial", False) for event in got][-2:] == [True, False]
    assert got[-1]["content"]["parts"][0]["text"] == "one two three four"
    assert [event["invocationId"] for event in (await client.get(f"{sessions}/s")).json()["events"]][-1] == got[-1][
        "invocationId"
    ]


async def test_a_confirmation_is_asked_as_adk_asks_it_and_answered_without_the_turns_id(
    client: httpx2.AsyncClient, sessions: str, user: str
) -> None:
    called, asked, waits = await stream(client, run_body(user, "pay"))
    [original], [request] = ([part["functionCall"] for part in each["content"]["parts"]] for each in (called, asked))
    assert original.keys() == {"id", "name", "args"}
    assert request["name"] == "adk_request_confirmation"
    assert request["args"]["originalFunctionCall"] == original
    assert request["args"]["toolConfirmation"]["confirmed"] is False
    assert "approve or reject" in request["args"]["toolConfirmation"]["hint"]
    assert (asked["longRunningToolIds"], "longRunningToolIds" in called) == ([request["id"]], False)
    # The call is answered for the time being, as ADK does it, and the page asks nobody for that.
    assert waits["content"]["parts"][0]["functionResponse"]["id"] == original["id"]
    assert waits["actions"]["skipSummarization"]
    assert waits["actions"]["requestedToolConfirmations"] == {original["id"]: {"confirmed": False}}
    assert len({each["id"] for each in (called, asked, waits)}) == 3
    answer = {"id": request["id"], "name": request["name"], "response": {"confirmed": True, "payload": {}}}
    message = {"role": "user", "parts": [{"functionResponse": answer}]}
    got = await stream(client, run_body(user, message, functionCallEventId=asked["id"]))
    assert "paid 7" in json.dumps(got[-1])
    assert got[-1]["invocationId"] == asked["invocationId"]
    # When the page is loaded again, the question stands answered.
    events = (await client.get(f"{sessions}/s")).json()["events"]
    [response] = [part["functionResponse"] for part in events[4]["content"]["parts"]]
    assert (response["id"], response["name"]) == (request["id"], "adk_request_confirmation")
    assert events[5]["content"]["parts"][0]["functionResponse"]["id"] == original["id"]


@tool
async def listen(tool_context: ToolContext) -> str:
    """Wait for a message."""
    return (await tool_context.next_message()).text


async def test_a_client_says_what_its_message_does_while_a_turn_runs(local: Deploy) -> None:
    model = ScriptedModel([{"call": "listen"}, "so be it"])
    with local(LlmAgent(name="root", model=model, tools=[listen]), app_name="desk") as rt, serving(app_for(rt)) as url:
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            turn = rt.run(user_id="ada", session_id="s", message="begin")
            await turn.aio.started()
            refused = await client.post("/run", json=run_body("ada", "no", onConcurrentTurn="reject"))
            assert (refused.status_code, refused.json()["type"]) == (409, "SessionBusyError")
            assert (await client.post("/run", json=run_body("ada", "no", onConcurrentTurn="shout"))).status_code == 422
            got = await stream(client, run_body("ada", "without museums", on_concurrent_turn="steer"))
            assert got[-1]["content"]["parts"] == [{"text": "so be it"}]
            assert got[-1]["invocationId"] == turn.invocation_id
        [heard] = model.requests[-1].contents[-1].function_responses()
        assert heard.response == {"result": "without museums"}


async def test_a_turn_without_a_message_goes_on_if_it_has_failed(client: httpx2.AsyncClient, sessions: str, user: str) -> None:
    await client.post("/run", json=run_body(user, "fail"))
    [said, failed] = (await client.get(f"{sessions}/s")).json()["events"]
    assert (said["author"], "errorCode" in failed) == ("user", True)
    again = {**run_body(user, "", invocationId=failed["invocationId"]), "newMessage": None}
    await client.post("/run", json=again)
    events = (await client.get(f"{sessions}/s")).json()["events"]
    assert [event.get("errorCode") for event in events] == [None, failed["errorCode"], failed["errorCode"]]
    assert {event["invocationId"] for event in events} == {failed["invocationId"]}


async def test_a_confirmation_wrapped_in_text_is_understood(client: httpx2.AsyncClient, user: str) -> None:
    _, asked, _ = await stream(client, run_body(user, "pay"))
    request = asked["content"]["parts"][0]["functionCall"]
    wrapped = {"response": json.dumps({"confirmed": False})}
    part = {"function_response": {"id": request["id"], "name": request["name"], "response": wrapped}}
    got = (await client.post("/run", json=run_body(user, {"role": "user", "parts": [part]}))).json()
    assert "rejected" in json.dumps(got)


async def test_errors_are_statuses_or_a_frame(client: httpx2.AsyncClient, user: str) -> None:
    assert (await client.post("/run_sse", json=run_body(user, "hi", appName="none"))).status_code == 404
    assert (await client.post("/run_sse", json={"appName": "desk"})).status_code == 422
    assert (await client.post("/run", json={**run_body(user, "hi"), "newMessage": None})).status_code == 422
    *_, last = await stream(client, run_body(user, "fail"))
    assert last["error"].startswith("AgentFailedError: ")
    assert last["error_details"]["error_type"] == "AgentFailedError"
    assert (await client.post("/run", json=run_body(user, "fail"))).status_code == 500


async def test_artifacts_and_memory(client: httpx2.AsyncClient, sessions: str, user: str) -> None:
    place = f"{sessions}/s/artifacts"
    for text in ("zero", "one"):
        saved = (await client.post(place, json={"filename": "a/b.txt", "artifact": {"text": text}})).json()
    assert saved["version"] == 1
    data = {"inlineData": {"mimeType": "image/png", "data": "AAEC"}}
    picture = (await client.post(place, json={"filename": "p.png", "artifact": data})).json()
    assert (picture["version"], picture["mimeType"]) == (0, "image/png")
    assert (await client.get(place)).json() == ["a/b.txt", "p.png"]
    assert (await client.get(f"{place}/p.png")).json() == data
    for name in ("a/b.txt", "a%2Fb.txt"):
        assert (await client.get(f"{place}/{name}")).json() == {"text": "one"}
        assert (await client.get(f"{place}/{name}?version=0")).json() == {"text": "zero"}
        assert (await client.get(f"{place}/{name}/versions")).json() == [0, 1]
        assert (await client.get(f"{place}/{name}/versions/0")).json() == {"text": "zero"}
        assert [each["version"] for each in (await client.get(f"{place}/{name}/versions/metadata")).json()] == [0, 1]
        assert (await client.get(f"{place}/{name}/versions/1/metadata")).json()["version"] == 1
    assert (await client.delete(f"{place}/a/b.txt")).status_code == 200
    assert (await client.get(f"{place}/a/b.txt")).status_code == 404
    await client.post("/run", json=run_body(user, "remember the bicycle"))
    assert (await client.patch(f"/apps/desk/users/{user}/memory", json={"sessionId": "s"})).status_code == 200
    found = await client.post(f"/v1/apps/desk/memory/search?user={user}", json={"query": "bicycle"})
    assert len(found.json()["entries"]) == 1
