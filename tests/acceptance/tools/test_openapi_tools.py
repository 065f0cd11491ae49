"""The operations of an API as tools: what the server gets, and what the model gets of its answers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from actors import Blob, Content, FunctionResponse, LlmAgent, Part, Tool, ToolContext
from actors.errors import AgentFailedError, DefinitionError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.integrations.openapi.auth import ApiKeyAuth, BasicAuth, BearerAuth
from runtime.integrations.openapi.tools import OpenApiTools
from tests.support.runtimes import Deploy, run_turn, saved_blob
from tests.support.servers.api_server import PNG, ApiServer, api_server, spec


@pytest.fixture(scope="module")
def shared() -> Iterator[ApiServer]:
    with api_server() as started:
        yield started


@pytest.fixture
def api(shared: ApiServer) -> ApiServer:
    shared.got.clear()
    return shared


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"call": name, "args": args}


def agent(tools: OpenApiTools, *steps: Any) -> LlmAgent:
    return LlmAgent(name="clerk", model=ScriptedModel([{"parts": list(steps)}, "done"]), tools=[tools])


def results(rt: Runtime, **options: Any) -> list[dict[str, Any]]:
    return [response.response for event in run_turn(rt, "go", **options) for response in event.function_responses()]


def test_a_model_calls_the_operations_of_an_api(deploy: Deploy, api: ApiServer) -> None:
    tools = OpenApiTools(spec(api.url), auth=ApiKeyAuth("secret key"), headers={"X-App": "shop"}, max_response_bytes=800)
    gets = call("get_pet", id=7, fields=["name", "a,b"], X_Trace="t1", theme="dark", made_up=1)
    adds = call("add_pet", body={"name": "Rex"})
    uploads = call("add_photo", body={"photo": "in.png", "title": "Rex"})
    names = ("get_logo", "get_long", "get_broken", "get_nothing", "get_moved", "get_away")
    root = agent(
        tools, gets, adds, call("log_in", body={"name": "a&b"}), uploads, call("put_raw", body="in.png"), *map(call, names)
    )
    with deploy(root) as rt:
        rt.sessions.create("ada", "s1")
        rt.artifacts.save("ada", "s1", "in.png", Part(inline_data=Blob(data=b"pixels", mime_type="image/png")))
        got, added, logged_in, uploaded, raw, logo, long, broken, nothing, moved, away = results(rt)
        assert got["body"]["path"] == "/pets/7?fields=name,a%2Cb&api_key=secret%20key"
        assert {"x-trace": "t1", "cookie": "theme=dark", "x-app": "shop"}.items() <= got["body"]["headers"].items()
        assert (added["body"]["body"], added["body"]["headers"]["content-type"]) == ('{"name": "Rex"}', "application/json")
        assert len(added["body"]["headers"]["idempotency-key"]) == 32
        assert (logged_in["body"]["path"], logged_in["body"]["body"]) == ("/login", "name=a%26b")
        assert 'name="photo"; filename="in.png"' in uploaded["body"]["body"]
        assert all(text in uploaded["body"]["body"] for text in ("pixels", 'name="title"', "Rex"))
        assert (raw["body"]["body"], raw["body"]["headers"]["content-type"]) == ("pixels", "image/png")
        assert saved_blob(rt, logo["artifact"]) == Blob(data=PNG, mime_type="image/png")
        assert (logo["mime_type"], logo["bytes"]) == ("image/png", len(PNG))
        assert long == {
            "status": 200,
            "body": "0123456789" * 80,
            "truncated": "this is the beginning, of 800 bytes: ask for less",
        }
        assert broken == {
            "status": 503,
            "error": f"GET {api.url}/broken was answered with 503 Service Unavailable",
            "body": {"detail": "busy"},
            "retry_after": "7",
        }
        assert nothing == {"status": 204}
        assert moved["body"]["path"] == "/here?moved=1"
        assert away == {"status": 307, "location": "http://localhost:1/elsewhere"}


def test_a_cookie_of_the_server_is_not_sent_for_other_users(local: Deploy, api: ApiServer) -> None:
    model = ScriptedModel([call("get_logo"), "a", call("get_moved"), "b"])
    with local(LlmAgent(name="clerk", model=model, tools=[OpenApiTools(spec(api.url))])) as rt:
        results(rt)
        results(rt, user_id="bob")
    assert [each["path"] for each in api.got] == ["/logo", "/moved", "/here?moved=1"]
    assert not any("cookie" in each["headers"] for each in api.got)


def test_what_cannot_be_sent_and_what_is_not_answered_is_told_to_the_model(local: Deploy, api: ApiServer) -> None:
    tools = OpenApiTools(spec(api.url), timeout_s=0.3)
    with local(agent(tools, call("get_hangs"), call("get_pet"), call("put_raw", body="in.pn"), call("get_pet", id=".."))) as rt:
        hangs, missing, artifact, dots = results(rt)
    assert hangs == {"error": f"GET {api.url}/hangs was not answered within 0.3 s"}
    assert missing == {"error": "ValueError: missing arguments: id"}
    assert artifact == {"error": "ValueError: there is no artifact 'in.pn'. There are: none"}
    assert dots == {"error": "ValueError: id cannot be '..': it is a part of the path"}
    with local(agent(OpenApiTools(spec("http://127.0.0.1:9")), call("get_logo"))) as rt:
        (refused,) = results(rt, session_id="s2")
    assert refused["error"].startswith("GET http://127.0.0.1:9/logo got no answer: ConnectError")


def test_credentials_may_be_each_users_own(local: Deploy, api: ApiServer) -> None:
    async def token(context: ToolContext) -> BearerAuth | None:
        return BearerAuth(context.state["user:token"]) if "user:token" in context.state else None

    model = ScriptedModel([call("get_here"), "a", call("get_here"), "b"])
    with local(LlmAgent(name="clerk", model=model, tools=[here(api, token)])) as rt:
        (hers,) = results(rt, state_delta={"user:token": "t-ada"})
        (his,) = results(rt, user_id="bob")
    assert hers["body"]["headers"]["authorization"] == "Bearer t-ada"
    assert "authorization" not in his["body"]["headers"]


def here(api: ApiServer, auth: Any) -> OpenApiTools:
    return OpenApiTools({"openapi": "3.1.0", "paths": {"/here": {"get": {"operationId": "get_here"}}}}, server=api.url, auth=auth)


def test_credentials_stand_where_they_belong(local: Deploy, api: ApiServer) -> None:
    auth = [BasicAuth("ada", "pw"), ApiKeyAuth("k1", "X-Key", "header"), ApiKeyAuth("k2", "key", "cookie")]
    with local(agent(here(api, auth), call("get_here"))) as rt:
        (got,) = results(rt)
    assert {"authorization": "Basic YWRhOnB3", "x-key": "k1", "cookie": "key=k2"}.items() <= got["body"]["headers"].items()
    assert not any(secret in repr([auth, here(api, auth)]) for secret in ("pw", "k1", "k2"))


def asks_for_seven(tool: Tool, args: dict[str, Any], context: ToolContext) -> bool:
    return tool.name == "get_pet" and args["id"] == 7


@pytest.mark.parametrize(
    ("rule", "waiting"),
    [
        (True, ["get_pet", "get_pet", "delete_pet"]),
        ("unsafe", ["delete_pet"]),
        (["delete_*"], ["delete_pet"]),
        (asks_for_seven, ["get_pet"]),
    ],
    ids=["all", "unsafe", "patterns", "function"],
)
def test_the_user_agrees_before_a_call(local: Deploy, api: ApiServer, rule: Any, waiting: list[str]) -> None:
    tools = OpenApiTools(spec(api.url), require_confirmation=rule)
    with local(agent(tools, call("get_pet", id=7), call("get_pet", id=8), call("delete_pet", id=8))) as rt:
        run_turn(rt, "go")
        pending = rt.turns.pending("ada", "s1")
        assert [each.name for each in pending] == waiting
        agreed = [FunctionResponse(id=each.call_id, name=each.name, response={"confirmed": True}) for each in pending]
        run_turn(rt, Content(parts=[Part(function_response=each) for each in agreed]))
    assert sorted(each["method"] for each in api.got) == ["DELETE", "GET", "GET"]


def test_a_document_at_a_url_is_fetched_when_an_agent_first_runs(local: Deploy, api: ApiServer) -> None:
    tools = OpenApiTools(f"{api.url}/openapi.json", tools=["get_l*"], prefix="pets_")
    assert api.got == []
    with local(agent(tools, call("pets_get_logo"), call("get_logo"))) as rt:
        logo, unknown = results(rt)
    assert logo["status"] == 200
    assert unknown["error"].endswith("Available tools: pets_get_logo, pets_get_long")
    with local(agent(OpenApiTools(f"{api.url}/broken"))) as rt, pytest.raises((DefinitionError, AgentFailedError), match="503"):
        run_turn(rt, "go", session_id="s2")


def test_more_operations_than_a_model_can_be_shown_are_found(local: Deploy, api: ApiServer) -> None:
    paths = {f"/things/{number}": {"get": {"operationId": f"get_thing_{number}"}} for number in range(200)}
    tools = OpenApiTools({"openapi": "3.1.0", "info": {"title": "Things"}, "paths": paths}, server=api.url)
    model = ScriptedModel([call("find_tools", query="thing 150"), call("get_thing_150"), "done"])
    with local(LlmAgent(name="clerk", model=model, tools=[tools])) as rt:
        assert results(rt)[1]["body"]["path"] == "/things/150"
    assert [len(request.tools) for request in model.requests] == [1, 11, 11]
    assert "200 more than you see here, of Things" in model.requests[0].tools[0].description


@pytest.mark.parametrize(
    "options", [{"auth": BearerAuth("t")}, {"auth": lambda context: BearerAuth("t")}, {"headers": {"X-Key": "t"}}]
)
def test_credentials_go_to_no_server_that_only_the_document_names(options: dict[str, Any]) -> None:
    given = spec("https://api.test")
    given["paths"]["/pets"]["post"]["servers"] = [{"url": "https://evil.test/v1"}]
    refused = (
        r"POST /pets: the document sends it to https://evil.test:443, .* are for https://api.test:443. .* credential_servers"
    )
    with pytest.raises(DefinitionError, match=refused):
        OpenApiTools(given, **options)
    with pytest.raises(DefinitionError, match="evil"):
        OpenApiTools({**given, "servers": [{"url": "http://evil.test/v1"}]}, **options)
    # Without credentials, without the operation, to one server, or where the user trusts it.
    OpenApiTools(given)
    OpenApiTools(given, tools=["get_*"], **options)
    OpenApiTools(given, server="https://api.test/", **options)
    OpenApiTools(given, credential_servers=["https://evil.test"], **options)
    for wrong in ("https://evil.test", ["evil.test"]):
        with pytest.raises(DefinitionError, match="credential_servers of OpenApiTools"):
            OpenApiTools(given, credential_servers=wrong, **options)


def test_a_document_at_a_url_does_not_say_which_other_server_gets_credentials(local: Deploy, api: ApiServer) -> None:
    with api_server() as other:
        tools = OpenApiTools(f"{api.url}/openapi.json", tools=["get_logo"], auth=BearerAuth("t"))
        with local(agent(tools, call("get_logo"))) as rt:
            results(rt)
        assert api.got[-1]["headers"]["authorization"] == "Bearer t"
        api.named = other.url
        stolen = OpenApiTools(f"{api.url}/openapi.json", tools=["get_logo"], auth=BearerAuth("t"))
        with (
            local(agent(stolen, call("get_logo"))) as rt,
            pytest.raises((DefinitionError, AgentFailedError), match="sends it to"),
        ):
            results(rt)
        api.named = "/"
        assert other.got == []


def test_an_answer_that_is_compressed_is_read_as_far_as_it_is_wanted_and_no_further(local: Deploy, api: ApiServer) -> None:
    with local(agent(OpenApiTools(spec(api.url), max_response_bytes=800), call("get_bomb"), call("get_pet", id=7))) as rt:
        tracemalloc.start()
        try:
            bomb, pet = results(rt)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert str(bomb).count("a") >= 800
    assert pet["body"]["path"] == "/pets/7"
    assert peak < 16 * 2**20


def test_the_password_of_an_apis_url_reaches_it_and_no_log(
    local: Deploy, api: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with local(agent(OpenApiTools(spec(api.url.replace("//", "//ada:pass%20word@"))), call("get_pet", id=7))) as rt:
        [pet] = results(rt)
    assert pet["body"]["headers"]["authorization"] == "Basic YWRhOnBhc3Mgd29yZA=="
    assert "HTTP Request" in caplog.text
    assert "pass%20word" not in caplog.text
