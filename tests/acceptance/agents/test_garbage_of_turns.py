"""Turns leave nothing that only Python's collector finds: in a process that looks for garbage seldom it would be what grows."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from actors import (
    START,
    AgentTool,
    BaseAgent,
    Content,
    CustomAgent,
    Event,
    Graph,
    InvocationContext,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    ToolContext,
    exit_loop,
)
from actors.testing import PatternModel
from tests.support.runtimes import Deploy

pytestmark = pytest.mark.usefixtures("uncollected")


async def note(text: str, tool_context: ToolContext) -> str:
    """Write a note."""
    tool_context.state["note"] = text
    return " ".join(message.text for message in await tool_context.steering())


def llm(name: str, *patterns: tuple[str, Any], **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=PatternModel(patterns, default="done"), **fields)


def notes(name: str) -> LlmAgent:
    """An agent that calls a tool."""
    return llm(name, ("tool:", "done"), ("", {"call": "note", "args": {"text": "x"}}), tools=[note])


class Code(CustomAgent):
    """Looks for messages, and runs its child."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await context.steering()
        await context.run_agent("child")
        yield Event(content=Content.of_text("done"))


TREES: dict[str, Callable[[], BaseAgent]] = {
    "tool": lambda: notes("root"),
    "agent as a tool": lambda: llm(
        "root", ("tool:", "done"), ("", {"call": "expert", "args": {"request": "x"}}), tools=[AgentTool(notes("expert"))]
    ),
    "transfer": lambda: llm("root", ("", {"transfer": "other"}), sub_agents=[notes("other")]),
    "sequence": lambda: SequentialAgent(name="root", sub_agents=[notes("a"), notes("b")]),
    "loop": lambda: LoopAgent(
        name="root", sub_agents=[notes("a"), llm("b", ("", {"call": "exit_loop"}), tools=[exit_loop])], max_iterations=2
    ),
    "parallel": lambda: ParallelAgent(name="root", sub_agents=[notes("a"), notes("b")]),
    "graph": lambda: Graph(name="root", edges=[(START, notes("a"))]),
    "code": lambda: Code(name="root", sub_agents=[notes("child")]),
}


@pytest.mark.parametrize("tree", TREES)
async def test_turns_leave_no_garbage(tree: str, tmp_path: Path) -> None:
    async with Deploy("local", tmp_path)(TREES[tree]()) as rt:

        async def talk(sessions: str) -> None:
            for number in range(5):
                for config in (RunConfig(), RunConfig(streaming="sse")):
                    await rt.run(user_id="ada", session_id=f"{sessions}{number}", message="hi", run_config=config)

        await talk("first")
        gc.collect()
        await talk("second")
        assert gc.collect() < 10
