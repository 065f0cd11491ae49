"""What is a lost connection to an MCP server, and what is the answer of one of its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import McpTools
from actors.errors import McpServerError
from tests.support.agents.mcp_tools import agent, call, responses, server
from tests.support.runtimes import Deploy
from tests.support.servers.session_mcp_server import SessionMcpServer, error, error_object, result, session_mcp_server

CODES = [-32600, -32000, -32001, -32603, -32602]


@pytest.fixture
def remote() -> Iterator[SessionMcpServer]:
    with session_mcp_server() as server:
        yield server


def _json_refusal(status: int, **message: Any) -> Any:
    return lambda asked: (status, "application/json", json.dumps({"jsonrpc": "2.0", **message}).encode())


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "refuse",
    [
        lambda asked: (400, "text/html", b"<html>No valid session ID"),
        lambda asked: (404, "text/plain", b""),
        lambda asked: (503, "text/plain", b"starting"),
        lambda asked: (400, "application/json", json.dumps({"error": "no session"}).encode()),
        _json_refusal(400, id=None, error=error_object(-32603)),
        _json_refusal(404, id=None, error=error_object(-32001)),
        lambda asked: _json_refusal(400, id=asked, error=error_object(-32000))(asked),
        lambda asked: _json_refusal(404, id=asked, error=error_object(-32603))(asked),
        lambda asked: (500, "text/html", b"<html>Internal Server Error"),
        _json_refusal(500, id=None, error=error_object(-32603)),
        lambda asked: _json_refusal(500, id=asked, error=error_object(-32603))(asked),
    ],
    ids=[
        "400 page",
        "404",
        "503",
        "400 of no JSON-RPC",
        "400 of no request",
        "404 of no request",
        "400 of the request",
        "404 of the request with a code of tools",
        "500 page",
        "500 of no request",
        "500 of the request",
    ],
)
def test_a_server_that_does_not_know_its_session_any_more_gets_a_new_one(
    local: Deploy, remote: SessionMcpServer, refuse: Any
) -> None:
    remote.refuse = refuse
    with local(agent(McpTools(name="tests", url=remote.url), script=[call("pay"), "done"] * 3)) as rt:
        for _ in range(3):
            assert responses(rt) == [{"result": "done"}]
            remote.forget()
        assert rt.statistics().mcp["tests"].counts["connections"] == 3
    assert len(remote.calls) == 3


def test_a_server_is_started_again_for_agents_on_both_engines(deploy: Deploy, remote: SessionMcpServer) -> None:
    with deploy(agent(McpTools(name="tests", url=remote.url), script=[call("pay"), "done"] * 2)) as rt:
        assert responses(rt) == [{"result": "done"}]
        remote.forget()
        assert responses(rt) == [{"result": "done"}]


@pytest.mark.parametrize("code", CODES)
def test_an_error_code_that_a_tool_gives_over_http_is_its_answer(local: Deploy, remote: SessionMcpServer, code: int) -> None:
    remote.reply = lambda args, asked: error(asked, args["code"])
    with local(agent(McpTools(name="tests", url=remote.url), script=[call("pay", code=code), "done"] * 2)) as rt:
        for _ in range(2):
            assert responses(rt) == [{"error": f"McpServerError: MCP server 'tests': I refuse (code {code})"}]
        assert rt.statistics().mcp["tests"].counts["connections"] == 1
    assert len(remote.calls) == 2


@pytest.mark.parametrize("code", CODES)
def test_an_error_code_that_a_tool_gives_over_standard_output_is_its_answer(local: Deploy, tmp_path: Path, code: int) -> None:
    script = [call("refuse", file=str(tmp_path / "calls"), code=code), "done"] * 2
    with local(agent(server(), script=script)) as rt:
        for _ in range(2):
            assert responses(rt) == [{"error": f"McpServerError: MCP server 'tests': I refuse (code {code})"}]
        assert rt.statistics().mcp["tests"].counts["connections"] == 1
    assert (tmp_path / "calls").read_text().count("\n") == 2


def test_a_call_that_a_server_fails_with_a_status_is_not_made_again(local: Deploy, remote: SessionMcpServer) -> None:
    remote.call_status = 500
    with local(agent(McpTools(name="tests", url=remote.url), script=[call("pay"), "done"] * 2)) as rt:
        for _ in range(2):
            assert "McpServerError" in responses(rt)[0]["error"]
        assert rt.statistics().mcp["tests"].counts["connections"] == 1
    assert len(remote.calls) == 2


def test_a_call_whose_stream_ends_without_an_answer_is_made_once_more(local: Deploy, remote: SessionMcpServer) -> None:
    remote.reply = lambda args, asked: b": nothing yet\n\n" if len(remote.calls) == 1 else result(asked, "done")
    with local(agent(McpTools(name="tests", url=remote.url), script=[call("pay"), "done"])) as rt:
        assert responses(rt) == [{"result": "done"}]
        assert rt.statistics().mcp["tests"].counts["repeated"] == 1
    assert len(remote.calls) == 2


def test_a_result_that_does_not_name_its_type_is_complete(local: Deploy, remote: SessionMcpServer) -> None:
    remote.is_modern = True
    with local(agent(McpTools(name="tests", url=remote.url), script=[call("pay"), "done"])) as rt:
        assert responses(rt) == [{"result": "done"}]
    assert remote.sessions == []


REFUSED = "MCP server 'tests': it answers {} .+: it wants other credentials than it gets in `headers`"


@pytest.mark.parametrize(("status", "initialize"), [(401, 401), (403, 403), (401, 400)])
def test_a_server_that_refuses_the_credentials_is_not_tried_again(
    local: Deploy, remote: SessionMcpServer, status: int, initialize: int
) -> None:
    """A server without the revisions of before may refuse their `initialize` before it looks at credentials."""
    remote.locked, remote.locked_initialize = status, initialize
    tools = McpTools(name="tests", url=remote.url)
    with local(agent(tools, script=[])) as rt, pytest.raises(McpServerError, match=REFUSED.format(status)):
        responses(rt)
    assert remote.refused == 2  # the newest revision, and the one before


def test_credentials_that_are_refused_in_the_middle_of_a_session_are_named(local: Deploy, remote: SessionMcpServer) -> None:
    def lock() -> str:
        remote.locked = 401
        return "locked"

    with local(agent(McpTools(name="tests", url=remote.url), lock, script=[call("lock"), call("pay"), "done"])) as rt:
        _, told = responses(rt)
        assert re.search(REFUSED.format(401), told["error"])
        assert rt.statistics().mcp["tests"].counts["connections"] == 1
    assert remote.calls == []
