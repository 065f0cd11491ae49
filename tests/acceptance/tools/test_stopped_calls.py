"""What becomes of calls that run when another one beside them fails their run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import (
    AgentTool,
    Content,
    CustomAgent,
    Event,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    SequentialAgent,
    ToolContext,
)
from actors.errors import AgentFailedError
from actors.messages.json_types import JsonObject, JsonValue
from actors.testing import PatternModel, ScriptedModel
from tests.support.agents.failing_agents import SKIP
from tests.support.runtimes import Deploy, author_texts, run_turn

WAITS_S = 10.0
"""Less than a function waits for another one that uses the state."""


@pytest.mark.parametrize("kind", ["tool", "delegate"])
def test_an_agent_that_a_call_has_asked_is_stopped_before_the_workflow_goes_on(local: Deploy, kind: str) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        """Hang."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def fail(tool: Any, args: Any, context: ToolContext) -> None:
        if tool.name == "other":
            await begun.wait()
            raise ValueError("kaput")

    def other() -> None:
        """Never runs."""

    class Next(CustomAgent):
        async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
            yield Event(content=Content.of_text(f"stopped: {stopped.is_set()}", role="model"))

    calls = [{"call": "expert", "args": {"request": "why?"}}, {"call": "other"}]
    fields: dict[str, Any] = {"mode": "single_turn"} if kind == "delegate" else {}
    expert = LlmAgent(name="expert", model=ScriptedModel([{"call": "hang"}]), tools=[hang], **fields)
    asker = LlmAgent(
        name="asker",
        model=ScriptedModel([{"parts": calls}]),
        tools=[other] if kind == "delegate" else [AgentTool(expert), other],
        sub_agents=[expert] if kind == "delegate" else [],
        before_tool_callback=fail,
    )
    root = SequentialAgent(name="root", sub_agents=[asker, Next(name="next")], supervision=SKIP)
    with local(root) as rt:
        assert author_texts(run_turn(rt, "go"))[-1] == ("next", "stopped: True")


def test_a_function_waits_no_more_for_the_state_that_another_one_holds(local: Deploy) -> None:
    """Both run on in their threads when their run has failed."""
    holds, waits, failed, may_return, has_state = (threading.Event() for _ in range(5))

    def hold(tool_context: ToolContext) -> None:
        """Use the state, and do not return."""
        tool_context.state["x"] = 1
        holds.set()
        may_return.wait(WAITS_S * 3)

    def wait(tool_context: ToolContext) -> None:
        """Use the state when the run has failed."""
        holds.wait(WAITS_S)
        waits.set()
        failed.wait(WAITS_S)
        tool_context.state.get("x")
        has_state.set()

    def other() -> None:
        """Never runs."""

    async def fail(tool: Any, args: Any, context: ToolContext) -> None:
        if tool.name == "other":
            await asyncio.to_thread(waits.wait, WAITS_S)
            raise ValueError("kaput")

    calls = {"parts": [{"call": "hold"}, {"call": "wait"}, {"call": "other"}]}
    root = LlmAgent(name="root", model=PatternModel([], default=calls), tools=[hold, wait, other], before_tool_callback=fail)
    with local(root) as rt:
        with pytest.raises(AgentFailedError, match="kaput"):
            run_turn(rt, "go")
        failed.set()
        found = has_state.wait(WAITS_S)
        may_return.set()
    assert found


def test_a_call_that_gives_up_waiting_stops_its_own_agent_and_no_other(local: Deploy) -> None:
    happened: list[str] = []
    has_begun, may_go_on = asyncio.Event(), asyncio.Event()
    waits: list[asyncio.Timeout] = []

    class Waits:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            try:
                if request.agent == "patient":
                    has_begun.set()
                else:
                    waits[0].reschedule(asyncio.get_running_loop().time())
                await may_go_on.wait()
                happened.append(f"{request.agent} answers")
            except asyncio.CancelledError:
                happened.append(f"{request.agent} is stopped")
                raise
            yield LlmResponse(content=Content.of_text("fine", role="model"))

    class Hasty(AgentTool):
        async def run(self, args: JsonObject, context: ToolContext) -> JsonValue:
            await has_begun.wait()
            try:
                async with asyncio.timeout(None) as limit:
                    waits.append(limit)
                    return await super().run(args, context)
            except TimeoutError:
                may_go_on.set()
                return "no answer"

    slow, patient = (LlmAgent(name=name, model=Waits()) for name in ("slow", "patient"))
    model = ScriptedModel([{"parts": [{"call": name, "args": {"request": "go"}} for name in ("slow", "patient")]}, "done"])
    with local(LlmAgent(name="root", model=model, tools=[Hasty(slow), AgentTool(patient)])) as rt:
        events = run_turn(rt, "go")
    given = [response.response for event in events if event.author == "root" for response in event.function_responses()]
    assert given == [{"result": "no answer"}, {"result": "fine"}]
    assert happened == ["slow is stopped", "patient answers"]
