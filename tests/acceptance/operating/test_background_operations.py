"""Background runs over HTTP and at a terminal: their users look after them, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import pytest

from actors import AgentTool, LlmAgent
from actors.errors import RequestError
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.web import Principal, StaticTokens, app_for
from tests.acceptance.sessions.test_background import listen, only_run
from tests.support.console import have_joined, invoke
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S, serving

ADA, BOB = "ada-token-0123456789", "bob-token-0123456789"


@pytest.fixture
def rt(local: Deploy) -> Iterator[Runtime]:
    """A deployment in which each turn of ada starts a run, which listens."""
    helper = LlmAgent(
        name="helper", model=PatternModel([("tool:listen", "I have heard it")], default={"call": "listen"}), tools=[listen]
    )
    root = LlmAgent(
        name="root",
        model=ScriptedModel([{"call": "helper", "args": {"request": "listen"}}, "begun", "noted"]),
        tools=[AgentTool(helper, background=True)],
    )
    with local(root, app_name="desk") as made:
        made.run(user_id="ada", session_id="s1", message="begin").result()
        yield made


def test_users_look_after_their_runs_over_http(rt: Runtime) -> None:
    tokens = {ADA: Principal(user_id="ada"), BOB: Principal(user_id="bob")}
    with serving(app_for(rt, auth=StaticTokens(tokens))) as url:

        def ask(method: str, path: str = "", token: str = ADA, body: object = None) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {token}"}
            whole = f"{url}/v1/apps/desk/sessions/s1/background{path}"
            return httpx2.request(method, whole, json=body, headers=headers, timeout=TIMEOUT_S)

        [shown] = ask("GET").json()["runs"]
        run = f"/{shown['id']}"
        assert (shown["agent"], shown["startedBy"], shown["status"]) == ("helper", "root", "running")
        assert ask("GET", run).json() == shown
        assert (ask("GET", token=BOB).json(), ask("GET", run, token=BOB).status_code) == ({"runs": []}, 404)
        answer = {"parts": [{"functionResponse": {"id": "c1", "name": "x", "response": {}}}]}
        for wrong in ({}, {"message": answer}):
            assert ask("POST", f"{run}/messages", body=wrong).status_code == 400
        assert ask("POST", f"{run}/messages", body={"message": "hear this"}).json() == shown
        assert [each.status for each in rt.background.wait("ada", "s1", timeout_s=30)] == ["done"]
        assert ask("GET", run).json()["result"] == "I have heard it"
        assert ask("POST", f"{run}/messages", body={"message": "too late"}).status_code == 400
        assert [ask("DELETE", run).json()["status"], ask("DELETE", "/other").status_code] == ["done", 404]


def test_they_are_listed_steered_and_cancelled_at_a_terminal(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    have_joined(monkeypatch, rt)

    def do(*arguments: str) -> str:
        return invoke("background", *arguments).output

    run = only_run(rt).id
    head, line = do("list", "desk", "s1").splitlines()
    assert head.split("\t") == ["run", "agent", "status", "started", "ended", "result"]
    assert line.split("\t")[:3] == [run, "helper", "running"]
    assert do("cancel", "desk", "s1", run, "--json").startswith('{"id":')
    [ended] = rt.background.wait("ada", "s1", timeout_s=30)
    assert ended.status == "cancelled"
    [listed] = [json.loads(each) for each in do("list", "desk", "s1", "--user", "ada", "--json").splitlines()]
    assert (listed["id"], listed["status"]) == (run, "cancelled")
    with pytest.raises(RequestError, match="is cancelled: it reads no message"):
        do("steer", "desk", "s1", run, "go")
