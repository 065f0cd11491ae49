"""For tests of workflow agents: agents for trees, logs in short form, and answers to long-running calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from actors import (
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    EventActions,
    FunctionResponse,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    Model,
    ParallelAgent,
    Part,
    RunConfig,
    SequentialAgent,
    exit_loop,
)
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.agents.conversation_tools import Gate, forever
from tests.support.runtimes import run_turn, stored
from tests.support.vectors.vector_agents import SayingAgent, lro, lrp
from tests.support.vectors.vector_rendering import is_compared, rendered


class FailsBehindGate(CustomAgent):
    """Waits at the gate, then fails."""

    gate: Gate

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await asyncio.to_thread(self.gate.wait)
        raise ValueError("kaput")
        yield Event()  # type: ignore[unreachable]


class FailsBesideChild(CustomAgent):
    """Runs its child `child`, and meanwhile waits at the gate and fails."""

    gate: Gate

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await asyncio.gather(context.run_agent("child"), self._fail())
        yield Event()

    async def _fail(self) -> None:
        await asyncio.to_thread(self.gate.wait)
        raise ValueError("kaput")


class UnstoppableAgent(CustomAgent):
    """Waits for ever, unless the message is "hi", and yields another event when it is cancelled."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        if context.user_content.text == "hi":
            yield Event(content=Content.of_text("hello", role="model"))
            return
        yield Event(content=Content.of_text("begun", role="model"))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield Event(content=Content.of_text("not yet", role="model"))


class CountingAgent(CustomAgent):
    """Yields one event, which counts its runs in state under `key` and escalates in run number `when`."""

    when: int | None = None
    key: str = "runs"

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        runs = context.state.get(self.key, 0) + 1
        actions = EventActions(state_delta={self.key: runs}, escalate=True if runs == self.when else None)
        yield Event(content=Content.of_text(f"{self.name}{runs}", role="model"), actions=actions)


def says(name: str, *texts: str, **fields: Any) -> SayingAgent:
    """Says the texts, or its name."""
    return SayingAgent(name=name, say=list(texts) or [name], **fields)


def gives_up(name: str) -> SayingAgent:
    """Escalates with the first of two events."""
    return SayingAgent(name=name, say=["enough", "bye"], esc=0)


def asks(name: str, before: Sequence[Any] = (), **fields: Any) -> LlmAgent:
    """Makes a long-running call, and says so when it has the answer."""
    model = PatternModel([("tool:lro", f"{name} knows"), *before], default={"call": "lro"})
    return LlmAgent(name=name, model=model, tools=[LongRunningFunctionTool(lro)], **fields)


def asks_and_hears(name: str) -> LlmAgent:
    """Makes a long-running call whose tool returns a first result at once."""
    model = PatternModel([("tool:lrp.*pending", f"{name} waits"), ("tool:lrp", f"{name} knows")], default={"call": "lrp"})
    return LlmAgent(name=name, model=model, tools=[LongRunningFunctionTool(lrp)])


def hangs(name: str) -> LlmAgent:
    """Calls a tool that never returns, unless the message is "hi"."""
    return LlmAgent(name=name, model=PatternModel([("hi", "hello")], default={"call": "forever"}), tools=[forever])


def waits(name: str, gate: Gate) -> LlmAgent:
    """Calls a tool that blocks its thread at the gate, unless the message is "hi"."""
    model = PatternModel([("tool:", "through"), ("hi", "hello")], default={"call": "wait"})
    return LlmAgent(name=name, model=model, tools=[gate.tool()])


def thinks(name: str, model: Model, *tools: FunctionTool, **fields: Any) -> LlmAgent:
    """Does what the model says."""
    return LlmAgent(name=name, model=model, tools=[exit_loop, *tools], **fields)


def loop(name: str, *children: Any, times: int | None = None, absorb: bool = False, **fields: Any) -> LoopAgent:
    on_escalate: Any = "absorb" if absorb else "propagate"
    return LoopAgent(name=name, sub_agents=children, max_iterations=times, on_escalate=on_escalate, **fields)


def seq(name: str, *children: Any, **fields: Any) -> SequentialAgent:
    return SequentialAgent(name=name, sub_agents=children, **fields)


def par(name: str, *children: Any, **fields: Any) -> ParallelAgent:
    return ParallelAgent(name=name, sub_agents=children, **fields)


def count_begun(context: CallbackContext) -> None:
    key = f"{context.agent_name}_begun"
    context.state[key] = context.state.get(key, 0) + 1


def count_ended(context: CallbackContext) -> None:
    key = f"{context.agent_name}_ended"
    context.state[key] = context.state.get(key, 0) + 1


COUNTED: dict[str, Any] = {"before_agent_callback": count_begun, "after_agent_callback": count_ended}
"""Callbacks that keep count of an agent's runs in state."""


def short(events: Sequence[Event], *, branch: bool = False) -> list[str]:
    """Texts, calls, answers and errors of events, each as `author what`; with `branch` each with its branch."""
    return [" ".join(rendered(event, branch=branch)).replace("text:", "") for event in events if is_compared(event)]


def log(rt: Runtime, session_id: str = "s1", *, branch: bool = False) -> list[str]:
    """The whole log in short."""
    return short(stored(rt, session_id), branch=branch)


def state(rt: Runtime, session_id: str = "s1") -> dict[str, Any]:
    session = rt.sessions.get("ada", session_id)
    return dict(session.state) if session is not None else {}


def run(rt: Runtime, message: Any, session_id: str = "s1") -> tuple[list[str], str]:
    """Run a turn; return its events in short form and the class name of its outcome."""
    result = rt.run(user_id="ada", session_id=session_id, message=message).result()
    return short(result.events), type(result.outcome).__name__


def answer(rt: Runtime, *authors: str, session_id: str = "s1") -> Content:
    """A message that answers the newest call of each author that is long-running, or asks something."""
    events = stored(rt, session_id)
    waiting = {call_id for event in events for call_id in (*event.long_running_tool_ids, *event.actions.requested_inputs)}
    calls = {event.author: call for event in events for call in event.function_calls() if call.id in waiting}
    asked = (calls[author] for author in authors)
    return Content(
        parts=[Part(function_response=FunctionResponse(id=each.id, name=each.name, response={"yes": True})) for each in asked]
    )


def run_greeting(rt: Runtime) -> list[str]:
    """A turn whose message makes no agent wait or hang."""
    return short(run_turn(rt, "hi", run_config=RunConfig(timeout=60)))
