"""The tree of the storm with two drivers: transfers, workflow agents, an agent as a tool, and tools that keep a journal."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from actors import (
    AgentTool,
    BaseAgent,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    ToolContext,
    exit_loop,
)
from actors.messages.event import USER
from actors.rules.prompt.compiler import FOREIGN_MARK
from actors.testing import PatternModel

MODEL_DELAY_S = 0.05
"""How long a model takes, so that some calls are under way whenever a process is lost."""

KINDS = ("talk", "book", "pay", "refund", "report", "ask")
"""Kinds of messages, each sent as `<kind> <number>`."""

FLOOR = {"desk": "book 0", "billing": "pay 0", "refunds": "refund 0"}
"""The agents that can have the floor, each with a message after which it has it."""


class StormModel:
    """A PatternModel with a delay. It has no state: the same request gets the same response."""

    def __init__(self, *patterns: tuple[str, Any], default: Any = "noted") -> None:
        self._model = PatternModel(patterns, default=default)

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Answer the newest text."""
        await asyncio.sleep(MODEL_DELAY_S)
        async for response in self._model.generate(request, stream=stream):
            yield response


class RoundModel:
    """Gives a reply for each round of a loop, by how often its agent has answered the user's newest message."""

    def __init__(self, *replies: Any) -> None:
        self._models = [PatternModel([], default=reply) for reply in replies]

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Give the reply of this round; the last one from then on."""
        await asyncio.sleep(MODEL_DELAY_S)
        rounds = 0
        for content in reversed(request.contents):
            if content.role == USER and content.parts[0].text != FOREIGN_MARK:
                break
            rounds += content.role == "model"
        model = self._models[min(rounds, len(self._models) - 1)]
        async for response in model.generate(LlmRequest(contents=request.contents[:1]), stream=stream):
            yield response


class Journal:
    """A file in which tools write when they begin and end, with their process and the id of their call."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def act(self, what: str, tool_context: ToolContext) -> dict[str, Any]:
        """Do something, and remember it in the session's state."""
        self._write(tool_context, "begin")
        await asyncio.sleep(MODEL_DELAY_S)
        tool_context.state[what.split()[0]] = what
        self._write(tool_context, "end")
        return {"done": what}

    def block(self, what: str, tool_context: ToolContext) -> dict[str, Any]:
        """Do something in a thread."""
        self._write(tool_context, "begin")
        time.sleep(MODEL_DELAY_S)
        self._write(tool_context, "end")
        return {"done": what}

    def _write(self, context: ToolContext, what: str) -> None:
        line = {"call": context.function_call_id, "what": what, "pid": os.getpid(), "at": time.time()}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """Everything that was written."""
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []


def _call(name: str, what: str) -> dict[str, Any]:
    return {"call": name, "args": {"what": what}}


def storm_tree(journal: Path) -> BaseAgent:
    """The root. Three LLM agents may have the floor; a report takes workflow agents, and a question an agent that is a tool."""
    tools = [Journal(journal).act, Journal(journal).block]
    both = {"parts": [_call("act", "left"), _call("block", "right")]}

    def worker(name: str) -> LlmAgent:
        return LlmAgent(name=name, model=StormModel(("tool:", f"{name} is done"), ("", both)), tools=tools)

    expert = LlmAgent(
        name="expert",
        description="Knows.",
        model=StormModel(("tool:", "it is so"), ("", _call("block", "looked"))),
        tools=tools,
    )
    up, to_desk = ("^(pay|refund)", {"transfer": "billing"}), ("^(book|report|ask)", {"transfer": "desk"})
    refunds = LlmAgent(
        name="refunds",
        model=StormModel(
            ("tool:", "refunded"),
            ("^refund", _call("act", "refund")),
            ("^(pay|book|report|ask)", {"transfer": "billing"}),
        ),
        tools=tools,
    )
    billing = LlmAgent(
        name="billing",
        model=StormModel(("tool:", "paid"), ("^pay", both), ("^refund", {"transfer": "refunds"}), to_desk),
        tools=tools,
        sub_agents=[refunds],
    )
    drafting = LoopAgent(
        name="drafting",
        max_iterations=4,
        sub_agents=[
            LlmAgent(name="writer", model=RoundModel("first draft", "second draft", "third draft")),
            LlmAgent(name="critic", model=RoundModel("again", {"call": "exit_loop"}), tools=[exit_loop]),
        ],
    )
    sources = ParallelAgent(name="sources", sub_agents=[worker("web"), worker("papers"), worker("news")])
    closing = LlmAgent(name="closing", model=StormModel(default="that is the report"))
    return LlmAgent(
        name="desk",
        model=StormModel(
            ("tool:", "so it is"),
            ("^book", _call("act", "book")),
            ("^report", {"transfer": "reports"}),
            ("^ask", {"call": "expert", "args": {"request": "is it so?"}}),
            up,
        ),
        tools=[*tools, AgentTool(expert)],
        sub_agents=[billing, SequentialAgent(name="reports", sub_agents=[drafting, sources, closing])],
    )
