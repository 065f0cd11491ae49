"""A toolset is asked when its agent first runs in a process, and closed when the process ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors import AgentTool, Content, FunctionResponse, FunctionTool, LlmAgent, Part, ReadonlyContext, Task, Tool, Toolset
from actors.errors import AgentFailedError, DefinitionError
from actors.testing import PatternModel, ScriptedModel
from tests.support.agents.conversation_tools import LockedToolset, count_begin
from tests.support.runtimes import Deploy, author_texts, run_turn, stored_state


def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order} is late"


class Server(Toolset):
    """Has the tools that it is given, and notes what is done with it."""

    searchable = True

    def __init__(self, *tools: Any, fails: int = 0) -> None:
        self.given = tools
        self.fails = fails
        self.done: list[str] = []

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        self.done.append(f"asked by {context.agent_name}")
        if self.fails:
            self.fails -= 1
            raise OSError("the server is away")
        return self.given

    async def aclose(self) -> None:
        self.done.append("closed")


class ByState(Server):
    """Has a tool only for those who may use it."""

    per_run = True

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        return await super().tools(context) if context.state.get("may") else ()


def caller(name: str, toolset: Toolset, **fields: Any) -> LlmAgent:
    model = PatternModel([("tool:", "called"), ("late", {"call": "look_up", "args": {"order": "42"}})])
    return LlmAgent(name=name, model=model, tools=[toolset], **fields)


def test_it_is_asked_once_for_all_agents_of_a_process_and_closed_once(local: Deploy) -> None:
    server = Server(look_up)
    root = caller("root", server, sub_agents=[caller("other", server)])
    with local(root) as rt:
        assert server.done == []
        for session in ("s1", "s2"):
            events = run_turn(rt, "Is 42 late?", session_id=session)
            assert next(events[1].function_responses()).response == {"result": "42 is late"}
        assert rt.tree().tools == ("Server",)
    assert server.done == ["asked by root", "closed"]


def test_one_that_depends_on_the_session_is_asked_before_each_run(local: Deploy) -> None:
    server = ByState(look_up)
    with local(caller("root", server)) as rt:
        for may in (True, False):
            events = run_turn(rt, "Is 42 late?", state_delta={"may": may})
            response = next(events[1].function_responses()).response
            assert ("error" in response) is not may


def test_a_toolset_that_fails_fails_the_run_and_is_asked_again_by_the_next(local: Deploy) -> None:
    server = Server(look_up, fails=1)
    with local(caller("root", server)) as rt:
        with pytest.raises(AgentFailedError, match="the server is away"):
            run_turn(rt, "Is 42 late?")
        assert author_texts(run_turn(rt, "Is 42 late?"))[-1] == ("root", "called")


@pytest.mark.parametrize(
    ("toolset", "error"),
    [
        (Server(look_up, FunctionTool(look_up)), "the toolsets of agent 'root': two tools are called 'look_up'"),
        (Server("look_up"), "toolset 'Server' of agent 'root': a tool must be a Tool or a function, not str"),
        (Server(AgentTool(LlmAgent(name="clerk"))), "toolset 'Server' of agent 'root' has the agent 'clerk'"),
    ],
    ids=["twice", "no tool", "an agent"],
)
def test_what_cannot_be_a_tool_is_named(local: Deploy, toolset: Toolset, error: str) -> None:
    with local(caller("root", toolset)) as rt, pytest.raises(DefinitionError, match=error):
        run_turn(rt, "Is 42 late?")


def test_agents_have_the_tools_of_their_toolsets_in_flows_too(local: Deploy) -> None:
    server = Server(look_up)
    steps = [{"call": "look_up", "args": {"order": "42"}}, {"call": "succeed_check", "args": {"result": "late"}}]
    with local(LlmAgent(name="root", model=ScriptedModel(steps), tools=[server])) as rt:
        assert rt.run_task("Check order 42.", name="check", user_id="ada", session_id="s1") == "late"
    assert server.done == ["asked by root", "closed"]


def many(number: int, confirmed: bool = False) -> list[FunctionTool]:
    async def sends(to: str = "") -> str:
        return f"sent to {to}"

    names = [f"send_parcel_{each}" for each in range(number)]
    return [FunctionTool(sends, name=name, description="Sends.", require_confirmation=confirmed) for name in names]


def shown(model: ScriptedModel) -> list[list[str]]:
    return [[tool.name for tool in request.tools] for request in model.requests]


FINDS = {"call": "find_tools", "args": {"query": "parcel 70"}}
SENDS = {"call": "send_parcel_70", "args": {"to": "Ada"}}


def test_a_model_finds_tools_that_are_too_many_to_be_shown(local: Deploy) -> None:
    model = ScriptedModel([FINDS, SENDS, "Sent.", "Again."])
    with local(LlmAgent(name="root", model=model, tools=[Server(*many(71)), look_up])) as rt:
        events = run_turn(rt, "Send parcel 70 to Ada.")
        found, sent = (response.response for event in events for response in event.function_responses())
        assert found["tools"][0] == {"name": "send_parcel_70", "description": "Sends."}
        assert sent == {"result": "sent to Ada"}
        run_turn(rt, "And again?")
    first, *later = shown(model)
    assert first == ["look_up", "find_tools"]
    assert later[0][2] == "send_parcel_70"
    assert [("send_parcel_70" in names, len(names)) for names in later] == [(True, 12)] * 3


def test_as_many_tools_as_can_be_shown_are(local: Deploy) -> None:
    model = ScriptedModel(["Hello."])
    with local(LlmAgent(name="root", model=model, tools=[Server(*many(40)), Server(*many(64)[40:])])) as rt:
        run_turn(rt, "Hi")
    assert shown(model) == [[tool.name for tool in many(64)]]


def test_a_found_tool_that_waits_for_consent_is_run_by_the_next_deployment(local: Deploy) -> None:
    def root(*steps: Any) -> LlmAgent:
        return LlmAgent(name="root", model=ScriptedModel(list(steps)), tools=[Server(*many(71, confirmed=True))])

    with local(root(FINDS, SENDS)) as rt:
        run_turn(rt, "Send parcel 70 to Ada.")
        (waiting,) = rt.turns.pending("ada", "s1")
    with local(root("Sent.")) as rt:
        agreed = FunctionResponse(id=waiting.call_id, name=waiting.name, response={"confirmed": True})
        events = run_turn(rt, Content(parts=[Part(function_response=agreed)]))
        assert next(events[0].function_responses()).response == {"result": "sent to Ada"}


def test_a_task_takes_no_toolset() -> None:
    with pytest.raises(DefinitionError, match="a Toolset stands in the `tools` of an agent"):
        Task(name="check", objective="Check it.", tools=[Server()])


def test_an_agent_that_has_asked_for_a_key_begins_when_it_is_answered(local: Deploy) -> None:
    root = caller("root", LockedToolset(look_up), before_agent_callback=count_begin)
    with local(root) as rt:
        run_turn(rt, "late?")
        (pending,) = rt.turns.pending("ada", "s1")
        rt.answer(pending, {"key": "k"}, user_id="ada", session_id="s1").result()
        assert stored_state(rt) == {"begun": 1}
