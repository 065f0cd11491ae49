"""Agents that fail in their first runs, and the supervisors' decisions about them."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

from actors import (
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    EventActions,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    Supervision,
)
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.agents.workflow_agents import count_begun
from tests.support.runtimes import stored

ALWAYS = 1_000


class FailingAgent(CustomAgent):
    """Says the number of its run, counts it in state, and fails in its first runs.

    Attributes:
        times: number of runs that fail.
        escalates: whether it escalates before it fails.
    """

    times: int = ALWAYS
    escalates: bool = False

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        tries = context.state.get(self.name, 0) + 1
        actions = EventActions(state_delta={self.name: tries}, escalate=self.escalates or None)
        yield Event(content=Content.of_text(f"try {tries}", role="model"), actions=actions)
        if tries <= self.times:
            raise ValueError("kaput")
        yield Event(content=Content.of_text("done", role="model"))


class ProcessKillingAgent(CustomAgent):
    """Kills its process in every run."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield Event()


class FailingCallback:
    """A before_model_callback that fails in an agent's first runs; with `after_tool` once a tool has been called."""

    def __init__(self, times: int, after_tool: bool) -> None:
        self.times = times
        self.after_tool = after_tool

    def __call__(self, context: CallbackContext, request: LlmRequest) -> None:
        is_called = any(True for content in request.contents[-1:] for _ in content.function_responses())
        if context.state[f"{context.agent_name}_begun"] <= self.times and (is_called or not self.after_tool):
            raise ValueError("kaput")


def agent_failing_first(name: str, times: int = ALWAYS, *replies: tuple[str, Any], **fields: Any) -> LlmAgent:
    """An agent that fails in its first runs, before it says anything; if it has tools, after the first call."""
    callbacks: dict[str, Any] = {
        "before_agent_callback": count_begun,
        "before_model_callback": FailingCallback(times, bool(fields.get("tools"))),
    }
    return LlmAgent(name=name, model=PatternModel([*replies, (".*", f"{name} is done")]), **callbacks, **fields)


def restart(max_restarts: int = 3, **fields: Any) -> Supervision:
    """A supervision that restarts without delay."""
    return Supervision(strategy="restart", max_restarts=max_restarts, **{"backoff_s": 0, **fields})


SKIP = Supervision(strategy="skip")


def decisions_in(events: Sequence[Event]) -> list[str]:
    """The supervisors' decisions, each as `supervisor decision child`; restarts with their number and the maximum."""
    found = []
    for event in events:
        if (told := (event.custom_metadata or {}).get("supervision")) is not None:
            often = f" {told['attempt']}/{told['of']}" if "attempt" in told else ""
            found.append(f"{event.author} {told['decision']} {told['child']}{often}")
    return found


def logged_decisions(rt: Runtime, session_id: str = "s1") -> list[str]:
    """The same for the whole log of a session."""
    return decisions_in(stored(rt, session_id))
