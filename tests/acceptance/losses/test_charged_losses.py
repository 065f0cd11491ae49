"""Which runs go on alone when the process of all agents was lost: code that ran then (semantics.md 2, "Lost processes")."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
    LlmRequest,
    LlmResponse,
    Model,
)
from actors.messages import protocol as p
from actors.testing import PatternModel
from tests.support.agents.workflow_agents import par, seq
from tests.support.fixtures.lossy_engine import Process, lossy_runtime
from tests.support.runtimes import run_turn

Lose = Callable[[], Awaitable[None]]
"""Loses all agents the first time it is called."""


class Losing(Model):
    """A model whose client ends the process."""

    def __init__(self, lose: Lose) -> None:
        self._lose = lose

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await self._lose()
        yield LlmResponse(content=Content.of_text("done", role="model"))


def calls_tool(name: str, lose: Lose) -> LlmAgent:
    """An agent whose tool ends the process."""

    async def work() -> str:
        """Work."""
        await lose()
        return "worked"

    return LlmAgent(name=name, model=PatternModel([("tool:", "done")], default={"call": "work"}), tools=[work])


def calls_model(name: str, lose: Lose) -> LlmAgent:
    return LlmAgent(name=name, model=Losing(lose))


class Code(CustomAgent):
    """Ends the process itself, or else runs its child."""

    lose: Any = None

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        if self.lose is not None:
            await self.lose()
        else:
            await context.run_agent("a")
        yield Event(content=Content.of_text("done", role="model"))


def asks(agent: BaseAgent) -> LlmAgent:
    call = {"call": agent.name, "args": {"request": "go"}}
    return LlmAgent(name="root", model=PatternModel([("tool:", "done")], default=call), tools=[AgentTool(agent)])


def graph(node: Any) -> Graph:
    return Graph(name="root", edges=[(START, node)])


TREES: dict[str, tuple[Callable[[Lose], BaseAgent], Sequence[str]]] = {
    "tool": (lambda lose: calls_tool("root", lose), ["root"]),
    "client of a model": (lambda lose: calls_model("root", lose), []),
    "custom agent": (lambda lose: Code(name="root", lose=lose), ["root"]),
    "custom agent that waits for a tool": (lambda lose: Code(name="root", sub_agents=[calls_tool("a", lose)]), ["a"]),
    "custom agent that waits for a model": (lambda lose: Code(name="root", sub_agents=[calls_model("a", lose)]), []),
    "function of a graph": (lambda lose: graph(lose), ["root"]),
    "graph that waits for a tool": (lambda lose: graph(calls_tool("a", lose)), ["a"]),
    "graph that waits for a model": (lambda lose: graph(calls_model("a", lose)), []),
    "sequence": (lambda lose: seq("root", calls_tool("a", lose)), ["a"]),
    "parallel": (lambda lose: par("root", calls_model("a", lose), calls_tool("b", lose)), ["b"]),
    "agent that waits for a tool of another": (lambda lose: asks(calls_tool("a", lose)), ["a"]),
    "agent that waits for a model of another": (lambda lose: asks(calls_model("a", lose)), []),
}


@pytest.mark.parametrize("name", TREES)
def test_only_code_that_ran_when_the_process_ended_goes_on_alone(tmp_path: Path, name: str) -> None:
    tree, alone = TREES[name]
    has_lost = False
    begun: list[str] = []

    async def lose() -> None:
        nonlocal has_lost
        if not has_lost:
            has_lost = True
            await engine.lose("agents")

    async def see(sender: Process, message: p.Message, handled: bool) -> None:
        if handled and isinstance(message, p.BeginAlone):
            # Behind its branch, and before the path of its node.
            begun.append(message.run.partition(" ")[0].rpartition("/")[2])

    rt, engine = lossy_runtime(tree(lose), tmp_path)
    engine.meddler = see
    with rt:
        run_turn(rt, "go")
        assert {turn.state for turn in rt.turns.list()} == {"finished"}
    assert (has_lost, begun) == (True, alone)
