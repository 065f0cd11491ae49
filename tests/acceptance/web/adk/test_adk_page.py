"""The paths that ADK's page asks for. The page itself is tested in a browser, in the environment of google-adk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from actors.errors import DefinitionError
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.web import Principal, StaticTokens, app_for
from tests.support.agents.page_agents import desk, large, pipeline
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S, serving


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like that of the page."""
    folder = tmp_path_factory.mktemp("package") / "browser"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<html>the page</html>")
    (folder / "main-ABCD1234.js").write_text("go()")
    (folder.parent / "secret.txt").write_text("secret")
    return folder


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Runtime]]:
    deploy = Deploy("local", tmp_path_factory.mktemp("stores"))
    with (
        deploy(desk(), app_name="desk") as one,
        deploy(pipeline(), app_name="pipeline") as two,
        deploy(large(60, 60), app_name="large") as three,
    ):
        yield [one, two, three]


@pytest.fixture(scope="module")
def url(runtimes: list[Runtime], page: Path) -> Iterator[str]:
    with serving(app_for(*runtimes, adk_web=page)) as url:
        yield url


async def run(client: httpx2.AsyncClient, app: str, message: object) -> list[Any]:
    """Run a turn of session `s` of user `user`, as the page does."""
    await client.post(f"/apps/{app}/users/user/sessions", json={"sessionId": "s"})
    new = {"role": "user", "parts": [{"text": message}]} if isinstance(message, str) else message
    body = {"appName": app, "userId": "user", "sessionId": "s", "newMessage": new, "stateDelta": None}
    response = await client.post("/run", json=body)
    assert response.status_code == 200, response.text
    return list(response.json())


async def test_the_pages_files_are_served_and_no_others(client: httpx2.AsyncClient, page: Path) -> None:
    for path in ("/", "/dev-ui"):
        assert (await client.get(path)).headers["location"] == "/dev-ui/"
    index = await client.get("/dev-ui/")
    assert (index.text, index.headers["cache-control"]) == ("<html>the page</html>", "no-cache")
    assert index.headers["content-type"].startswith("text/html")
    again = await client.get("/dev-ui/", headers={"If-None-Match": index.headers["etag"]})
    assert again.status_code == 304
    script = await client.get("/dev-ui/main-ABCD1234.js")
    assert (script.text, "immutable" in script.headers["cache-control"]) == ("go()", True)
    config = (await client.get("/dev-ui/assets/config/runtime-config.json")).json()
    assert config == {"backendUrl": "", "telemetry": False}
    for path in ("none.js", "..%2Fsecret.txt", "%2e%2e/secret.txt", "%2Fetc%2Fpasswd", "a%00b", "x" * 5000, "assets"):
        assert (await client.get(f"/dev-ui/{path}")).status_code == 404, path
    assert (await client.get("/dev-ui/", headers={"Host": "evil.example"})).status_code == 421
    assert (await client.get("/dev/apps/desk/build_graph", headers={"Origin": "https://evil.example"})).status_code == 403


async def test_a_call_by_voice_is_refused_and_the_log_says_why(
    client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The page opens a WebSocket, which arrives as a plain request, and then names the log of the server."""
    refused = await client.get("/run_live?app_name=desk&user_id=user&session_id=s")
    assert (refused.status_code, refused.json()["detail"][:24]) == (501, "calls by voice and video")
    assert "calls by voice and video are not served: write to the agent instead" in caplog.text


async def test_the_page_finds_a_service_that_is_mounted_in_another(runtimes: list[Runtime], page: Path) -> None:
    app = Starlette(routes=[Mount("/agents", app_for(*runtimes, adk_web=page))])
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx2.AsyncClient(base_url="http://localhost", transport=transport) as client:
        assert (await client.get("/agents/")).headers["location"] == "/agents/dev-ui/"
        config = await client.get("/agents/dev-ui/assets/config/runtime-config.json")
        assert config.json()["backendUrl"] == "/agents"
        assert (await client.get("/agents/dev/apps/desk/build_graph")).status_code == 200
    distant = httpx2.ASGITransport(app, client=("10.0.0.9", 1))
    async with httpx2.AsyncClient(base_url="http://localhost", transport=distant) as client:
        for path in ("dev-ui/", "dev/apps/desk/build_graph", "dev/apps/desk/debug/trace/session/s"):
            assert (await client.get(f"/agents/{path}")).status_code == 403


async def test_traces_have_what_models_were_asked_where_it_was_recorded(page: Path, tmp_path: Path) -> None:
    settings = Settings(record_requests=1.0)
    with (
        Deploy("local", tmp_path)(desk(), app_name="desk", settings=settings) as rt,
        serving(app_for(rt, adk_web=page)) as url,
    ):
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            await run(client, "desk", "hello")
            recorded = rt.turns.requests("user", "s", rt.turns.list("user")[0].invocation_id)
            spans = (await client.get("/dev/apps/desk/debug/trace/session/s")).json()
    shown = [span["attributes"] for span in spans if span["name"].startswith("generate_content")]
    asked = {each["gcp.vertex.agent.event_id"]: json.loads(each["gcp.vertex.agent.llm_request"]) for each in shown}
    assert set(asked) == {call.event_id for call in recorded}
    for call in recorded:
        assert call.request is not None
        told = asked[call.event_id]
        assert told["config"]["system_instruction"] == call.request.system_instruction
        assert told["contents"] == [content.to_dict() for content in call.request.contents]
        tools = [tool["name"] for tool in told["config"]["tools"][0]["function_declarations"]]
        assert tools == [tool.name for tool in call.request.tools]


def test_the_page_goes_without_credentials_and_has_to_be_there(
    runtimes: list[Runtime], page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DefinitionError, match="sends no credentials"):
        app_for(*runtimes, adk_web=page, auth=StaticTokens({"t" * 20: Principal()}))
    with pytest.raises(DefinitionError, match="adk_paths=True"):
        app_for(*runtimes, adk_web=page, adk_paths=False)
    with pytest.raises(DefinitionError, match="google/adk/cli/browser"):
        app_for(*runtimes, adk_web=tmp_path)
    monkeypatch.setattr("runtime.frontends.web.adk.page.find_spec", lambda name: None)
    with pytest.raises(DefinitionError, match=r"pip install 'raygrove\[adk\]'.*--adk-ui"):
        app_for(*runtimes, adk_web=True)


async def test_without_the_page_there_is_none_of_its_paths(runtimes: list[Runtime]) -> None:
    transport = httpx2.ASGITransport(app_for(*runtimes), client=("127.0.0.1", 1))
    async with httpx2.AsyncClient(base_url="http://localhost", transport=transport) as client:
        for path in ("dev-ui/", "dev/apps/desk/build_graph", "config/telemetry"):
            assert (await client.get(f"/{path}")).status_code == 404


async def test_agents_are_described_and_drawn(client: httpx2.AsyncClient) -> None:
    tree = (await client.get("/dev/apps/desk/build_graph")).json()
    assert (tree["name"], tree["root_agent"]["name"], tree["root_agent"]["model"]) == ("desk", "concierge", "PatternModel")
    assert [each["name"] for each in tree["root_agent"]["sub_agents"]] == ["billing", "shipping"]
    assert tree["root_agent"]["tools"] == [{"name": "write_letter", "type": "tool"}]
    light, dark = [
        (await client.get(f"/dev/apps/desk/build_graph_image?dark_mode={dark}")).json()[""]["dotSrc"]
        for dark in ("false", "true")
    ]
    assert '"concierge" -> "billing"' in light
    assert light != dark
    assert (await client.get("/dev/apps/desk/graph")).json() == {"dotSrc": light}
    assert (await client.get("/dev/apps/none/build_graph")).status_code == 404


async def test_large_graphs_are_cut_and_have_the_agents_of_the_session_that_the_page_shows(client: httpx2.AsyncClient) -> None:
    place = "/dev/apps/large/build_graph_image"
    drawn = (await client.get(place)).json()[""]["dotSrc"]
    assert drawn.count("label=") <= 500
    assert '"agent_0_0"' in drawn
    assert '"agent_59_0"' not in drawn
    *_, last = await run(client, "large", "far away")
    assert last["author"] == "agent_59"
    page_at = {"Referer": "http://localhost/dev-ui/?app=large&userId=user&session=s"}
    seen = (await client.get(place, headers=page_at)).json()[""]["dotSrc"]
    assert seen.index('"agent_59"') < seen.index('"agent_0"')
    for referer in (
        "?app=desk&userId=user&session=s",
        "?app=large&userId=user&session=none",
        "?app=large&userId=%20&session=%00",
    ):
        assert (await client.get(place, headers={"Referer": f"http://localhost/dev-ui/{referer}"})).json()[""]["dotSrc"] == drawn
    tree = (await client.get("/dev/apps/large/build_graph")).json()["root_agent"]
    assert "agent_59" in {each["name"] for each in tree["nodes"]}
    below = (await client.get(f"{place}?node=agent_59")).json()
    assert '"agent_59_59"' in below["dotSrc"]
    assert (await client.get(f"{place}?node=root/nobody")).status_code == 404


async def test_a_confirmation_inside_of_a_workflow_and_the_trace_of_its_turn(client: httpx2.AsyncClient) -> None:
    asked = await run(client, "pipeline", "a refund")
    request = asked[-2]["content"]["parts"][0]["functionCall"]
    assert request["name"] == "adk_request_confirmation"
    # So it is shown again when the page is loaded anew.
    stored = (await client.get("/apps/pipeline/users/user/sessions/s")).json()["events"]
    assert stored[-2]["longRunningToolIds"] == [request["id"]]
    answer = {"id": request["id"], "name": request["name"], "response": {"confirmed": True, "payload": {}}}
    done = await run(client, "pipeline", {"role": "user", "parts": [{"functionResponse": answer}]})
    assert {event["invocationId"] for event in (*asked, *done)} == {asked[0]["invocationId"]}
    assert done[-1]["author"] == "closer"
    for headers in ({}, {"Referer": "http://localhost/dev-ui/?app=pipeline&userId=user&session=s"}):
        spans = (await client.get("/dev/apps/pipeline/debug/trace/session/s", headers=headers)).json()
        names = [span["name"] for span in spans]
        assert names[:2] == ["invocation", "wait for the user: refund"]
        assert names.count("invoke_agent pipeline") == 2
        assert "execute_tool refund" in names
    event = next(event for event in done if event["author"] == "closer")
    place = "/dev/apps/pipeline/users/user/sessions/s/events"
    assert "#0F5223" in (await client.get(f"{place}/{event['id']}/graph")).json()["dotSrc"]
    assert (await client.get(f"{place}/none/graph")).json() == {}
    assert (await client.get("/dev/apps/pipeline/debug/trace/session/none")).json() == []


async def test_evaluations_are_none(client: httpx2.AsyncClient) -> None:
    for name in ("eval_sets", "eval_results", "tests"):
        assert (await client.get(f"/dev/apps/desk/{name}")).json() == []
    for name, key in (("eval-sets", "evalSetIds"), ("eval-results", "evalResultIds"), ("metrics-info", "metricsInfo")):
        assert (await client.get(f"/dev/apps/desk/{name}")).json()[key] == []
    assert (await client.get("/dev/apps/desk/builder?ts=1")).text == ""
    assert (await client.get("/config/telemetry")).json() == {"telemetry": False}
