"""Programs written for ADK find its names here, with the same meaning."""

from __future__ import annotations

import pytest

from actors import Agent, AgentTool, BaseAgent, FunctionTool, LlmAgent, LongRunningFunctionTool, LoopAgent, SequentialAgent
from actors.errors import DefinitionError
from actors.testing import PatternModel, ScriptedModel
from tests.support.runtimes import Deploy, author_texts, run_turn


def look_up(order: str) -> dict[str, str]:
    """Look up an order."""
    return {"order": order, "status": "late"}


def ask_boss() -> None:
    """Ask the boss, who answers later."""


def test_an_agent_is_an_llm_agent_and_a_base_agent_is_any(local: Deploy) -> None:
    model = PatternModel([("late", {"call": "look_up", "args": {"order": "42"}}), ("tool:look_up", "It is late.")])
    root = Agent(name="root", model=model, instruction="Help.", tools=[look_up])
    assert Agent is LlmAgent
    for agent in (root, LoopAgent(name="loop", sub_agents=[root]), SequentialAgent(name="steps")):
        assert isinstance(agent, BaseAgent)
    assert not isinstance(LoopAgent(name="loop"), Agent)
    with local(root) as rt:
        assert author_texts(run_turn(rt, "Is 42 late?"))[-1] == ("root", "It is late.")


def test_function_tools_take_their_function_as_func(local: Deploy) -> None:
    tools = [FunctionTool(func=look_up), LongRunningFunctionTool(func=ask_boss)]
    assert [tool.func for tool in tools] == [look_up, ask_boss]
    model = ScriptedModel([{"call": "look_up", "args": {"order": "42"}}, {"call": "ask_boss"}])
    with local(Agent(name="root", model=model, tools=tools)) as rt:
        events = run_turn(rt, "Is 42 late?")
        assert next(events[1].function_responses()).response == {"order": "42", "status": "late"}
        # None is no answer yet.
        assert [call.name for call in rt.pending(session_id="s1", user_id="ada")] == ["ask_boss"]


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(DefinitionError, match="LongRunningFunctionTool needs a function, not str"):
        LongRunningFunctionTool(func="ask_boss")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="AgentTool needs an agent, not function"):
        AgentTool(look_up)  # type: ignore[arg-type]
