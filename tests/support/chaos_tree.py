"""The tree whose processes are killed: transfers, a tool, a loop and a parallel, with models that take some time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from actors import Agent, LlmAgent, LlmRequest, LlmResponse, LoopAgent, ParallelAgent, ToolContext
from actors.testing import PatternModel

MODEL_DELAY_S = 0.05
"""How long a model takes, so that some calls are under way whenever a process is killed."""

KINDS = ("pay", "check", "search", "talk")
"""Kinds of messages, each sent as `<kind> <number>`."""


class SlowModel:
    """A PatternModel with a delay. It has no state: the same request gets the same response."""

    def __init__(self, *patterns: tuple[str, Any]) -> None:
        self._model = PatternModel([*patterns, ("", "noted")])

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Answer the newest text."""
        await asyncio.sleep(MODEL_DELAY_S)
        async for response in self._model.generate(request, stream=stream):
            yield response


async def record(what: str, tool_context: ToolContext) -> dict[str, Any]:
    """Record something in the session's state."""
    done = tool_context.state.get("done", 0) + 1
    await asyncio.sleep(MODEL_DELAY_S)
    tool_context.state["done"] = done
    return {"recorded": what}


def recording_agent(name: str) -> LlmAgent:
    """An agent that calls a tool twice at once, and then says so."""
    both = {"parts": [{"call": "record", "args": {"what": f"{name} {side}"}} for side in ("left", "right")]}
    return LlmAgent(name=name, model=SlowModel(("tool:record", f"{name} is done"), ("", both)), tools=[record])


def chaos_tree() -> Agent:
    """The root. After `pay` the agent `payments` keeps the conversation; the others return to the root."""
    pay = {"call": "record", "args": {"what": "payment"}}
    ways: tuple[tuple[str, Any], ...] = (("^check", {"transfer": "checks"}), ("^search", {"transfer": "search"}))
    payments = LlmAgent(
        name="payments",
        model=SlowModel(("tool:record", "paid"), ("^pay", pay), *ways),
        tools=[record],
    )
    checks = LoopAgent(name="checks", max_iterations=2, sub_agents=[recording_agent("inspector"), recording_agent("auditor")])
    search = ParallelAgent(name="search", sub_agents=[recording_agent("web"), recording_agent("papers")])
    model = SlowModel(("^pay", {"transfer": "payments"}), *ways)
    return LlmAgent(name="desk", model=model, sub_agents=[payments, checks, search])
