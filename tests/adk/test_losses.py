"""An adapted tree says the same at whichever message its actors are lost, and repeats nothing that was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, SequentialAgent
from google.adk.events import RequestInput
from google.adk.tools import AgentTool, FunctionTool, LongRunningFunctionTool
from google.adk.workflow import START, Workflow
from google.genai import types

from actors import Content, Event, FunctionResponse, Part, RunConfig
from runtime.adk import from_adk
from runtime.driver.runtime import Runtime
from tests.adk import programs
from tests.adk.notes import log, noted, noted_lines
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import run_turn

PLACES = 4
"""How many messages of each tree each of the other actors is lost at. Agents are lost at every message."""


def count(key: str, tool_context: Any) -> str:
    """Count in the session's state."""
    noted(f"tool {key}")
    tool_context.state[key] = tool_context.state.get(key, 0) + 1
    return f"{key} {tool_context.state[key]}"


def began(callback_context: Any) -> None:
    callback_context.state["runs"] = callback_context.state.get("runs", 0) + 1


def asked(callback_context: Any, llm_request: Any) -> None:
    callback_context.state["asked"] = len(llm_request.contents)
    llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="be brief")]))


def answered(callback_context: Any, llm_response: Any) -> None:
    part = llm_response.content.parts[0]
    if part.text:
        part.text += "!"


def counted(tool: Any, args: Any, tool_context: Any, tool_response: Any) -> dict[str, Any]:
    tool_context.state["last"] = args["key"]
    return {"said": tool_response}


def ended(callback_context: Any) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text="that is all")])


def talker(name: str, *steps: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=programs.Scripted(is_noted=True, steps=list(steps)), **fields)


def worker(name: str) -> LlmAgent:
    steps = [("count", {"key": "a"}), ("count", {"key": "b"}), "done"]
    return talker(
        name,
        *steps,
        tools=[count],
        before_agent_callback=began,
        after_agent_callback=ended,
        before_model_callback=asked,
        after_model_callback=answered,
        after_tool_callback=counted,
        output_key="said",
    )


def callbacks() -> BaseAgent:
    return worker("root")


def story() -> BaseAgent:
    second = SequentialAgent(name="rewrite", sub_agents=[talker("rewriter", "a better one"), worker("worker")])
    return programs.Conditional("root", talker("toner", "negative", output_key="tone"), second)


def looping() -> BaseAgent:
    expert = talker("expert", "42")
    asker = talker("asker", ("expert", {"request": "life"}), "show:last", tools=[AgentTool(agent=expert)])
    return LoopAgent(name="root", max_iterations=2, sub_agents=[asker])


def lend(callback_context: Any, llm_request: Any) -> None:
    llm_request.append_tools([FunctionTool(count)])


def lending() -> BaseAgent:
    return talker("root", ("count", {"key": "a"}), "done", before_model_callback=lend)


def ask_boss(amount: int) -> None:
    """Ask."""


def pay(amount: int) -> str:
    """Pay."""
    noted("tool pay")
    return f"paid {amount}"


def pausing() -> BaseAgent:
    tools = [LongRunningFunctionTool(ask_boss), FunctionTool(pay, require_confirmation=lambda amount: amount > 5)]
    return talker("root", ("pay", {"amount": 1}), ("ask_boss", {"amount": 9}), "show:last", tools=tools)


class Fancy(LlmAgent):  # type: ignore[misc]
    """Runs as an island."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        async for event in super()._run_async_impl(ctx):
            yield event


def island() -> BaseAgent:
    steps = [("count", {"key": "a"}), ("count", {"key": "b"}), "done"]
    fancy = Fancy(
        name="fancy",
        model=programs.Scripted(is_noted=True, steps=steps),
        tools=[count],
        before_agent_callback=began,
        output_key="said",
    )
    return SequentialAgent(name="root", sub_agents=[fancy, talker("last", "show:last")])


def draft(node_input: Any) -> str:
    noted("tool draft")
    return "a draft"


def ask(node_input: str) -> Any:
    return RequestInput(interrupt_id="consent", message="May I?")


def send(node_input: Any) -> str:
    noted("tool send")
    return f"sent {node_input}"


def graph() -> Any:
    return Workflow(name="root", edges=[(START, draft, ask, send)])


TREES: dict[str, Callable[[], Any]] = {
    tree.__name__: tree for tree in (callbacks, story, looping, lending, pausing, island, graph)
}


def play(name: str, losses: list[Loss]) -> tuple[list[str], Counter[str], LossyEngine]:
    """Two turns: what the log says, what was done, and the engine."""
    log().unlink(missing_ok=True)
    with quick_folder() as folder:
        rt, engine = lossy_runtime(from_adk(TREES[name](), islands=True).root_agent, Path(folder), losses)
        with rt:
            config = RunConfig(timeout=30)
            run_turn(rt, "go", run_config=config, invocation_id="e-first")
            run_turn(rt, _next_message(rt), run_config=config)
            session = rt.sessions.get("ada", "s1")
            assert session is not None
            said = [told(event) for event in session.events if event.actions.agent_state is None]
    return said, Counter(noted_lines()), engine


def _next_message(rt: Runtime) -> Any:
    waits = rt.pending(session_id="s1", user_id="ada")
    responses = [
        Part(function_response=FunctionResponse(id=call.call_id, name=call.name, response={"confirmed": True})) for call in waits
    ]
    return Content(role="user", parts=responses) if responses else "more"


def told(event: Event) -> str:
    calls = [(call.name, dict(call.args or {})) for call in event.function_calls()]
    answers = [response.response for response in event.function_responses()]
    return f"{event.author} {event.text} {calls} {answers} {event.error_code} {dict(event.actions.state_delta)}"


@pytest.mark.parametrize("name", TREES)
def test_a_tree_says_the_same_when_its_agents_are_lost_at_any_message(name: str) -> None:
    check(name, "agents", every=1)


@pytest.mark.parametrize("who", ["runner", "session", "runner and session"])
@pytest.mark.parametrize("name", TREES)
def test_a_tree_says_the_same_when_other_actors_are_lost(name: str, who: Victim) -> None:
    check(name, who, every=0)


def check(name: str, who: Victim, every: int) -> None:
    expected, done, engine = play(name, [])
    lost = 0
    for at in range(0, engine.messages, every or max(1, engine.messages // PLACES)):
        for before in (True, False):
            said, repeated, lossy = play(name, [Loss(at, who, before)])
            assert said == expected, (at, before, lossy.lost)
            # Only what was under way when the actors were lost is done again.
            assert (repeated - done).total() <= 1, (at, before, repeated - done)
            assert not done - repeated
            lost += bool(lossy.lost)
    assert lost
