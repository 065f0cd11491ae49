"""Tools that are cancelled when a message comes for their agent (docs/turns.md)."""

from __future__ import annotations

import pytest

from actors import AgentTool, LlmAgent
from actors.errors import DefinitionError
from actors.testing import ScriptedModel
from tests.acceptance.sessions.test_steering import log, start, steer
from tests.support.agents.conversation_tools import Gate, forever
from tests.support.runtimes import Deploy, stored

CALLS = {"parts": [{"call": "forever"}, {"call": "wait"}]}


def results(rt: object) -> list[object]:
    return [each.response for event in stored(rt) for each in event.function_responses()]  # type: ignore[arg-type]


def test_a_message_cancels_the_tools_that_run(deploy: Deploy, gate: Gate) -> None:
    model = ScriptedModel([CALLS, "stopped"])
    with deploy(LlmAgent(name="root", model=model, tools=[forever, gate.tool()], interrupt_tools=True)) as rt:
        turn = start(rt, "begin")
        gate.wait_for_caller()
        steer(rt, "stop that")
        assert turn.result().text == "stopped"
        assert results(rt) == [{"error": "interrupted by a message: stop that"}] * 2
        assert log(rt) == ["user: begin", "user: stop that (root)", "root: stopped"]
        assert any(content.text == "stop that" for content in model.requests[1].contents)


def test_only_those_that_are_named(deploy: Deploy, gate: Gate) -> None:
    model = ScriptedModel([CALLS, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[forever, gate.tool()], interrupt_tools=["forever"])) as rt:
        turn = start(rt, "begin")
        gate.wait_for_caller()
        steer(rt, "stop that")
        gate.open()
        assert turn.result().text == "done"
        interrupted, waited = results(rt)
        assert interrupted == {"error": "interrupted by a message: stop that"}
        assert waited != interrupted


def test_without_a_message_they_end_by_themselves(deploy: Deploy, gate: Gate) -> None:
    model = ScriptedModel([{"call": "wait"}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[gate.tool()], interrupt_tools=True)) as rt:
        turn = start(rt, "begin")
        gate.wait_for_caller()
        gate.open()
        assert turn.result().text == "done"
        assert log(rt) == ["user: begin", "root: done"]


def test_a_tool_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"no tool 'forevr'\. Did you mean 'forever'"):
        LlmAgent(name="root", model=ScriptedModel([]), tools=[forever], interrupt_tools=["forevr"])


def test_the_end_of_a_background_run_cancels_none(deploy: Deploy, gate: Gate) -> None:
    helper = LlmAgent(name="helper", description="helps", model=ScriptedModel(["42"]))
    model = ScriptedModel([{"call": "helper", "args": {"request": "go"}}, {"call": "wait"}, "it is 42"])
    tools = [gate.tool(), AgentTool(helper, background=True)]
    with deploy(LlmAgent(name="root", model=model, tools=tools, interrupt_tools=True)) as rt:
        turn = start(rt, "begin")
        gate.wait_for_caller()
        [run] = rt.background.wait("ada", "s1")
        assert rt.background.get("ada", "s1", run) == run
        gate.open()
        assert turn.result().text == "it is 42"
        assert "error" not in results(rt)[1]  # type: ignore[operator]
