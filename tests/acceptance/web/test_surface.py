"""The rest of the surface: sessions, events, artifacts, memory, agents, actors, figures, and the description of it all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx2
import jsonschema  # type: ignore[import-untyped]
import pytest

from actors import LlmAgent
from actors.interfaces.telemetry import tell_event
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.web.app import OPERATIONS
from runtime.settings import Settings
from runtime.web import Principal, StaticTokens, app_for
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import Frame, frames, serving

SSE = {"Accept": "text/event-stream"}


def at(user: str, *parts: str) -> str:
    return "/".join(["/v1/apps/desk", *parts]) + f"?user={user}"


async def test_usage_is_that_of_the_user_or_of_a_session_or_turn(client: httpx2.AsyncClient, user: str) -> None:
    turns = [(await client.post(at(user, "sessions", name, "turns"), json={"message": "hi"})).json() for name in ("u1", "u2")]
    report = (await client.get(at(user, "usage") + "&by=agent")).json()
    assert report["total"]["llmCalls"] == sum(sums["llmCalls"] for sums in report["groups"].values()) == 2
    assert report["total"]["money"] is None
    one = (await client.get(at(user, "usage") + f"&session=u1&turn={turns[0]['invocationId']}")).json()
    assert (one["total"]["llmCalls"], one["groups"]) == (1, {})
    assert (await client.get(at(user, "usage") + "&since=32503680000")).json()["total"]["llmCalls"] == 0
    for wrong in ("&by=week", "&turn=t", "&since=-1", "&since=inf", "&sessions=u1"):
        assert (await client.get(at(user, "usage") + wrong)).status_code == 400


async def test_sessions_are_created_listed_changed_rewound_exported_and_deleted(client: httpx2.AsyncClient, user: str) -> None:
    made = await client.post(at(user, "sessions"), json={"id": "a/b?c", "state": {"plan": "gold"}})
    place = made.headers["location"]
    assert (made.status_code, place) == (201, at(user, "sessions", "a%2Fb%3Fc"))
    again = await client.post(at(user, "sessions"), json={"id": "a/b?c"})
    assert (again.status_code, again.json()["type"]) == (409, "SessionExistsError")
    turns = at(user, "sessions", "a%2Fb%3Fc", "turns")
    first = (await client.post(turns, json={"message": "hi"})).json()
    changed = await client.patch(place, json={"stateDelta": {"plan": "iron", "seats": 3}})
    assert changed.json()["state"] == {"plan": "iron", "seats": 3}
    await client.post(turns, json={"message": "hi"})

    pages = [(await client.get(at(user, "sessions", "a%2Fb%3Fc", "events") + "&limit=3")).json()]
    pages.append(
        (await client.get(at(user, "sessions", "a%2Fb%3Fc", "events") + f"&limit=3&after_seq={pages[0]['next']}")).json()
    )
    assert [[event["seq"] for event in page["events"]] for page in pages] == [[1, 2, 3], [4, 5]]
    newest = await client.get(at(user, "sessions", "a%2Fb%3Fc", "events") + "&limit=1&newest_first=true")
    assert [event["seq"] for event in newest.json()["events"]] == [5]
    export = await client.get(at(user, "sessions", "a%2Fb%3Fc", "export"))
    lines = [json.loads(line) for line in export.text.splitlines()]
    assert (lines[0]["id"], [line["seq"] for line in lines[1:]]) == ("a/b?c", [1, 2, 3, 4, 5])

    assert (await client.post(at(user, "sessions"), json={})).status_code == 201
    listed = (await client.get(at(user, "sessions") + "&limit=1")).json()
    assert len(listed["sessions"]) == 1
    listed = (await client.get(at(user, "sessions") + f"&limit=1&before={listed['next']}")).json()
    assert ("next" in listed, listed["sessions"][0]["id"]) == (False, "a/b?c")

    page = (await client.get(turns + "&limit=1")).json()
    assert (len(page["turns"]), page["turns"][0]["firstSeq"]) == (1, 4)
    page = (await client.get(turns + f"&limit=1&before={page['next']}")).json()
    assert page["turns"][0]["invocationId"] == first["invocationId"]
    rewound = await client.post(at(user, "sessions", "a%2Fb%3Fc", "rewind"), json={"invocationId": first["invocationId"]})
    assert rewound.status_code == 204
    assert (await client.get(place)).json()["state"] == {"plan": "gold"}
    assert (await client.delete(place)).status_code == 204
    assert (await client.get(place)).status_code == 404


async def test_what_models_were_asked_is_read_where_it_was_recorded(tmp_path: Path) -> None:
    auth = StaticTokens({"boss-token-0123456789": Principal(is_admin=True), "ada-token-0123456789": Principal(user_id="ada")})
    root = LlmAgent(name="root", instruction="Be kind.", model=PatternModel([], default="hello"))
    with Deploy("local", tmp_path)(root, settings=Settings(record_requests=1.0)) as rt, serving(app_for(rt, auth=auth)) as url:
        turn = await rt.run(user_id="ada", session_id="s1", message="hi").result_async()
        place = f"{url}/v1/apps/test/sessions/s1/turns/{turn.invocation_id}/requests?user=ada"
        async with httpx2.AsyncClient() as client:
            boss, ada = ({"Authorization": f"Bearer {name}-token-0123456789"} for name in ("boss", "ada"))
            [call] = (await client.get(place, headers=boss)).json()["calls"]
            assert (call["agent"], call["seq"], call["eventId"]) == ("root", 2, turn.events[0].id)
            assert call["request"]["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
            assert call["request"]["config"]["system_instruction"].startswith("Be kind.")
            assert [attempt["model"] for attempt in call["attempts"]] == ["PatternModel"]
            described = place.replace("/requests", "/description")
            told = (await client.get(described, headers=boss)).json()
            assert (told["turn"]["state"], told["message"], told["agents"][0]["agent"]) == ("finished", "hi", "root")
            tell_event("overload", "turns are refused")
            happened = f"{url}/v1/apps/test/events"
            [*_, told] = (await client.get(happened, headers=boss)).json()["events"]
            assert (told["kind"], told["text"], told["pid"]) == ("overload", "turns are refused", os.getpid())
            assert (await client.get(happened, headers=ada)).status_code == 403
            for each in (place, described):
                # Instructions and tracebacks are not for users.
                assert (await client.get(each, headers=ada)).status_code == 403
                assert (await client.get(each.replace(turn.invocation_id, "none"), headers=boss)).status_code == 404


async def test_a_session_is_followed_over_its_turns_with_signs_of_life_between(client: httpx2.AsyncClient, user: str) -> None:
    await client.post(at(user, "sessions", "s", "turns"), json={"message": "hi"})
    got: list[Frame] = []
    async with client.stream("GET", at(user, "sessions", "s", "events"), headers=SSE) as response:
        lines = response.aiter_lines()
        seen = [line async for line in until(lines, ": keep-alive")]
        assert seen[0] == "retry: 1000"
        await client.post(at(user, "sessions", "s", "turns"), json={"message": "hi"})
        got = [frame async for frame in until_seq(response, lines, "4")]
    assert [line for line in seen if line.startswith("id:")] == ["id: 1", "id: 2"]
    assert [(frame.kind, frame.id, frame.data["author"]) for frame in got if frame.id] == [
        ("event", "3", "user"),
        ("event", "4", "concierge"),
    ]


async def until(lines: Any, last: str) -> Any:
    async for line in lines:
        yield line
        if line == last:
            return


async def until_seq(response: httpx2.Response, lines: Any, seq: str) -> Any:
    class Rest:
        def aiter_lines(self) -> Any:
            return lines

    async for frame in frames(Rest()):  # type: ignore[arg-type]
        yield frame
        if frame.id == seq:
            return


async def test_artifacts_are_bytes_with_versions_and_ranges(client: httpx2.AsyncClient, user: str) -> None:
    place = at(user, "sessions", "s", "artifacts", "plans%2F2026.html")
    for number, data in enumerate((b"<script>0</script>", b"0123456789")):
        saved = await client.put(place, content=data, headers={"Content-Type": "text/html"})
        assert (saved.status_code, saved.json()) == (201, {"name": "plans/2026.html", "version": number})
    whole = await client.get(place)
    assert (whole.content, whole.headers["etag"], whole.headers["content-type"]) == (b"0123456789", '"1"', "text/html")
    assert (whole.headers["content-disposition"], whole.headers["cache-control"]) == ("attachment", "private, no-cache")
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert (await client.get(place + "&version=0")).content == b"<script>0</script>"
    assert (await client.get(place, headers={"If-None-Match": '"1"'})).status_code == 304
    for wanted, content in (("bytes=2-4", b"234"), ("bytes=7-", b"789"), ("bytes=-2", b"89"), ("bytes=0-99", b"0123456789")):
        part = await client.get(place, headers={"Range": wanted})
        assert (part.status_code, part.content) == (206, content)
    assert (await client.get(place, headers={"Range": "bytes=10-"})).status_code == 416
    assert (await client.get(at(user, "sessions", "s", "artifacts"))).json() == {"names": ["plans/2026.html"]}
    assert (await client.get(place.replace("?", "/versions?"))).json() == {"versions": [0, 1]}
    assert (await client.delete(place)).status_code == 204
    assert (await client.get(place)).status_code == 404


async def test_memory_is_filled_searched_and_emptied_and_a_user_deleted(client: httpx2.AsyncClient, user: str) -> None:
    await client.post(at(user, "sessions", "s", "turns"), json={"message": "the blue bicycle"})
    assert (await client.post(at(user, "memory"), json={"sessionId": "s"})).status_code == 204
    found = (await client.post(at(user, "memory", "search"), json={"query": "bicycle"})).json()["entries"]
    assert [(entry["author"], entry["text"]) for entry in found] == [("user", "the blue bicycle")]
    assert (await client.delete(at(user, "memory", "s"))).status_code == 204
    assert (await client.post(at(user, "memory", "search"), json={"query": "bicycle"})).json() == {"entries": []}
    deleted = await client.delete(f"/v1/apps/desk/users/{user}")
    assert deleted.json()["sessions"] == 1
    assert (await client.get(at(user, "sessions"))).json() == {"sessions": []}


async def test_agents_are_listed_by_levels_and_found_by_words(client: httpx2.AsyncClient, user: str) -> None:
    assert (await client.get("/v1/apps")).json()["apps"] == [{"name": "desk", "root": "concierge", "description": "Greets."}]
    [root] = (await client.get("/v1/apps/desk/agents?depth=0")).json()["agents"]
    assert (root["name"], root["hidden"], root["tools"]) == ("concierge", 1, ["ask_manager", "pay"])
    [root] = (await client.get("/v1/apps/desk/agents")).json()["agents"]
    assert [child["name"] for child in root["children"]] == ["billing"]
    assert [agent["name"] for agent in (await client.get("/v1/apps/desk/agents?q=payments")).json()["agents"]] == ["billing"]
    unknown = await client.get("/v1/apps/desk/agents?under=biling")
    assert (unknown.status_code, unknown.json()["type"]) == (404, "UnknownAgentError")
    assert "Did you mean 'billing'?" in unknown.json()["detail"]
    assert "Did you mean 'desk'?" in (await client.get("/v1/apps/dest/agents")).json()["detail"]


async def test_operators_see_actors_figures_and_health(client: httpx2.AsyncClient, user: str) -> None:
    await client.post(at(user, "sessions", "s", "turns"), json={"message": "hi"})
    actors = (await client.get("/v1/apps/desk/actors")).json()["actors"]
    assert [(actor["kind"], actor["agent"]) for actor in actors] == [("session", ""), ("runner", ""), ("agent", "concierge")]
    page = (await client.get("/v1/apps/desk/actors?limit=1&offset=2")).json()
    assert ([actor["agent"] for actor in page["actors"]], "next" in page) == (["concierge"], False)
    assert (page["actors"][0]["counts"]["activations"], page["actors"][0]["lives"]) == (1, True)
    figures = (await client.get("/v1/apps/desk/statistics")).json()
    assert figures["runner"]["activations"] == {"concierge": 1}
    with_those_that_sleep = (await client.get("/v1/apps/desk/actors?asleep=true")).json()["actors"]
    assert [(each["kind"], each["agent"], each["pid"]) for each in with_those_that_sleep] == [
        (each["kind"], each["agent"], each["pid"]) for each in actors
    ]
    assert (await client.get("/v1/apps/desk/statistics")).json()["runner"]["counts"]["running"] == 0
    health = await client.get("/healthz")
    assert (health.json(), health.headers["cache-control"]) == ({"status": "ok"}, "no-store")
    assert (await client.get("/readyz")).json() == {"status": "ready"}
    metrics = (await client.get("/metrics")).text.splitlines()
    assert "# TYPE raygrove_runner_turns_total counter" in metrics
    assert 'raygrove_agents_live{app="desk"} 1' in metrics
    assert "# TYPE raygrove_session_input_tokens_total counter" in metrics
    assert "raygrove_web_streams 0" in metrics
    assert 'raygrove_web_requests_total{operation="GET /readyz",status="200"} 1' in metrics


async def test_the_description_names_every_operation_once_and_fits_what_is_answered(
    client: httpx2.AsyncClient, user: str, rt: Runtime
) -> None:
    described = (await client.get("/openapi.json")).json()
    assert {(path, method.upper()) for path, of in described["paths"].items() for method in of} == {
        *((operation.path, operation.method) for operation in OPERATIONS),
        ("/openapi.json", "GET"),
    }
    ids = [of[method]["operationId"] for of in described["paths"].values() for method in of]
    assert len(set(ids)) == len(ids)
    done = (await client.post(at(user, "sessions", "s", "turns"), json={"message": "pay"})).json()
    for name, value in (
        ("TurnResultView", done),
        ("EventPage", (await client.get(at(user, "sessions", "s", "events"))).json()),
        ("SessionView", (await client.get(at(user, "sessions", "s"))).json()),
        ("RuntimeStatistics", (await client.get("/v1/apps/desk/statistics")).json()),
        ("Problem", (await client.get("/v1/apps/none/agents")).json()),
    ):
        jsonschema.validate(value, {"$ref": f"#/components/schemas/{name}", **described})


_S = "/v1/apps/desk/sessions/s"
_OWN = ("sender", "steered", "raygrove:agent")
"""Metadata that clients may not write."""


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/v1/apps/desk/sessions?limit=0", {}, 400),
        ("GET", f"/v1/apps/desk/batches/b1?after={2**63}", {}, 400),
        ("GET", "/v1/apps/desk/sessions?limt=1", {}, 400),
        ("GET", "/v1/apps/desk/pending?limit=x", {}, 400),
        ("GET", "/v1/apps/desk/sessions/s", {}, 400),
        ("GET", "/v1/apps/desk/turns?before=x", {}, 400),
        ("GET", "/v1/apps/desk/turns?state=asleep", {}, 400),
        ("POST", "/v1/apps/desk/sessions?user=u", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
        ("POST", "/v1/apps/desk/sessions?user=u", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415),
        ("POST", "/v1/apps/desk/sessions?user=u", {"json": {"sessionId": "s"}}, 400),
        ("POST", "/v1/apps/desk/sessions?user=u", {"content": b"[" * 100_000}, 400),
        ("POST", "/v1/apps/desk/sessions?user=%01", {"json": {}}, 400),
        ("GET", "/v1/apps/desk/sessions/%FF?user=u", {}, 400),
        *(
            ("POST", f"{_S}/turns?user=u", {"json": {"message": "hi", "config": {"customMetadata": {key: "x"}}}}, 400)
            for key in _OWN
        ),
        ("GET", "/v1/apps/desk/sessions/s/turns/t/events?user=u", {"headers": {"Last-Event-ID": "x"}}, 404),
        ("PUT", "/v1/apps/desk/sessions/s/artifacts/a?user=u", {"content": b"", "headers": {"Content-Type": "a\tb"}}, 400),
        ("POST", "/v1/apps/desk/agents", {}, 405),
        ("GET", "/v1/nothing", {}, 404),
    ],
)
async def test_what_is_wrong_is_told_as_a_problem(
    client: httpx2.AsyncClient, method: str, path: str, options: dict[str, Any], status: int
) -> None:
    answer = await client.request(method, path, **options)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status


async def test_a_wrong_method_gets_to_know_the_right_ones(client: httpx2.AsyncClient) -> None:
    for path, methods in (
        ("/v1/apps/desk/sessions/s", {"GET", "HEAD", "PATCH", "DELETE"}),
        ("/v1/apps/desk/sessions/s/events", {"GET"}),
        ("/run_sse", {"POST"}),
    ):
        wrong = await client.put(path)
        assert (wrong.status_code, set(wrong.headers["allow"].split(", "))) == (405, methods)
