"""Every tool of the official test server from npm, called through an agent on Ray, over both transports."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from actors import LlmAgent, McpTools, Paused
from actors.testing import ScriptedModel
from tests.support.agents.mcp_tools import call, free_port, listening
from tests.support.polling import until
from tests.support.runtimes import Deploy

pytestmark = [pytest.mark.soak, pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")]

PACKAGE = "@modelcontextprotocol/server-everything@2026.8.31"

CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "echo": ({"message": "hello"}, "Echo: hello"),
    "get-annotated-message": ({"messageType": "success", "includeImage": True}, "artifacts"),
    "get-env": ({}, "PATH"),
    "get-resource-links": ({"count": 2}, "demo://resource"),
    "get-resource-reference": ({"resourceType": "Blob", "resourceId": 1}, "artifacts"),
    "get-structured-content": ({"location": "Chicago"}, "temperature"),
    "get-sum": ({"a": 2, "b": 3}, "5"),
    "get-tiny-image": ({}, "artifacts"),
    "gzip-file-as-resource": ({"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource"}, "artifacts"),
    "simulate-research-query": ({"topic": "actors"}, "error"),
    "toggle-simulated-logging": ({}, "logging"),
    "toggle-subscriber-updates": ({}, "updates"),
    "trigger-long-running-operation": ({"duration": 1, "steps": 2}, "completed"),
}
"""Arguments of each tool, and a word of what is to come back."""

ASKING = {
    "trigger-elicitation-request": ({}, {"action": "accept", "content": {"name": "Ada"}}, "Ada"),
    "trigger-url-elicitation": ({"url": "https://example.org/a"}, {"action": "accept"}, "accept"),
}
"""Tools that ask the user: arguments, the answer, and a word of what is to come back."""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The server, installed."""
    folder = tmp_path_factory.mktemp("npm")
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", PACKAGE], cwd=folder, check=True)
    return str(folder / "node_modules" / ".bin" / "mcp-server-everything")


@pytest.fixture(params=["stdio", "http"])
def tools(request: pytest.FixtureRequest, program: str) -> Iterator[McpTools]:
    if request.param == "stdio":
        yield McpTools(name="everything", command=[program, "stdio"])
        return
    port = free_port()
    with listening([program, "streamableHttp"], port, {**os.environ, "PORT": str(port)}):
        yield McpTools(name="everything", url=f"http://127.0.0.1:{port}/mcp")


@pytest.mark.parametrize("engine", ["ray"])
def test_every_tool_is_called_through_an_agent(deploy: Deploy, tools: McpTools) -> None:
    both = [*CALLS, *ASKING]
    script: list[Any] = [step for name, (args, _) in CALLS.items() for step in (call(name, **args), "done")]
    script += [call(name, **args) for name, (args, _, _) in ASKING.items()]
    model = ScriptedModel(script)
    with deploy(LlmAgent(name="root", model=model, tools=[tools])) as rt:
        for name, (_, expected) in CALLS.items():
            result = rt.run(user_id="ada", session_id="s1", message=name).result()
            [response] = [str(each.response) for event in result.events for each in event.function_responses()]
            assert expected in response, (name, response)
        assert {tool.name for tool in model.requests[0].tools} == set(both)
        for name in ASKING:
            assert isinstance(rt.run(user_id="ada", session_id=name, message="go").result().outcome, Paused)
        assert rt.statistics().mcp["everything"].counts["connections"] == 1
    # Every process of ours is another one now, and over standard input and output the server, too.
    with deploy(LlmAgent(name="root", model=ScriptedModel(["done"] * 2), tools=[tools])) as rt:
        for name, (_, given, expected) in ASKING.items():
            [pending] = rt.pending(user_id="ada", session_id=name)
            assert pending.question is not None
            result = rt.answer(pending, given).result()
            [response] = [str(each.response) for event in result.events for each in event.function_responses()]
            assert expected in response, (name, response)


@pytest.mark.parametrize("engine", ["ray"])
def test_a_server_that_was_started_again_is_found_by_the_next_call(deploy: Deploy, program: str) -> None:
    port = free_port()
    started = ([program, "streamableHttp"], port, {**os.environ, "PORT": str(port)})
    tools = McpTools(name="everything", url=f"http://127.0.0.1:{port}/mcp")
    model = ScriptedModel([call("echo", message="hello"), "done"] * 3)
    with deploy(LlmAgent(name="root", model=model, tools=[tools])) as rt:
        for starts in (1, 2, 3):
            with listening(*started):
                result = rt.run(user_id="ada", session_id="s1", message="go").result()
                [response] = [each.response for event in result.events for each in event.function_responses()]
                assert response == {"result": "Echo: hello"}
                assert rt.statistics().mcp["everything"].counts["connections"] == starts


@pytest.mark.parametrize("engine", ["ray"])
@pytest.mark.parametrize("is_started_again", [True, False], ids=["started again", "away"])
def test_a_server_that_is_killed_in_the_middle_of_a_call(deploy: Deploy, program: str, *, is_started_again: bool) -> None:
    port = free_port()
    started = ([program, "streamableHttp"], port, {**os.environ, "PORT": str(port)})
    tools = McpTools(name="everything", url=f"http://127.0.0.1:{port}/mcp", connect_timeout_s=60 if is_started_again else 0.5)
    model = ScriptedModel(
        [call("trigger-long-running-operation", duration=4, steps=2), "done", call("echo", message="hello"), "done"]
    )
    with deploy(LlmAgent(name="root", model=model, tools=[tools])) as rt:

        def counts() -> dict[str, int]:
            found = rt.statistics().mcp.get("everything")
            return dict(found.counts) if found is not None else {"calls": 0}

        with listening(*started):
            turn = rt.run(user_id="ada", session_id="s1", message="go")
            until(lambda: counts()["calls"] == 1)
        with listening(*started) if is_started_again else nullcontext():
            [response] = [each.response for event in turn.result().events for each in event.function_responses()]
        if is_started_again:
            assert "completed" in str(response)
            assert counts()["repeated"] == 1
        else:
            assert "MCP server 'everything'" in response["error"]
            assert "cannot be reached" in response["error"]
        with listening(*started):
            result = rt.run(user_id="ada", session_id="s1", message="again").result()
            [response] = [each.response for event in result.events for each in event.function_responses()]
            assert response == {"result": "Echo: hello"}
