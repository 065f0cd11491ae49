"""Agents, tools and messages of tests of flows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pydantic

from actors import Content, Flow, FunctionCall, FunctionResponse, LlmAgent, LlmRequest, LlmResponse, Part, Task, tool
from actors.testing import Reply, ScriptedModel
from runtime import Turn

ME: dict[str, Any] = {"user_id": "ada", "session_id": "s1"}
"""The session of all turns."""


class Person(pydantic.BaseModel):
    """What a task may result in."""

    name: str
    age: int


def succeed(task: str, *result: Any) -> Reply:
    """A call that finishes a task."""
    return {"call": f"succeed_{task}", "args": {"result": result[0]} if result else {}}


def worker(name: str, *replies: Reply, **more: Any) -> LlmAgent:
    """An agent with a script."""
    return LlmAgent(name=name, model=ScriptedModel(replies), **more)


def asked(agent: LlmAgent) -> list[LlmRequest]:
    """The requests that the agent's model has had."""
    return list(agent.model.requests)


def states(turn: Turn) -> dict[str, str]:
    """How each task of a turn has ended."""
    return {name: task.status for name, task in turn.result().tasks.items()}


@tool(long_running=True)
def ask_user(question: str) -> None:
    """Ask the user."""


def reply_to(turn: Turn, **answer: Any) -> Content:
    """A message that answers the newest call of a turn that waits."""
    calls = [call for event in turn for call in event.function_calls() if call.id in event.long_running_tool_ids]
    return Content(
        role="user", parts=[Part(function_response=FunctionResponse(id=calls[-1].id, name=calls[-1].name, response=answer))]
    )


def paused_flow() -> tuple[Flow, LlmAgent, LlmAgent]:
    """A flow of three tasks whose first agent asks the user; with its two agents."""
    asking = worker("asking", {"call": "ask_user", "args": {"question": "Which?"}}, succeed("t", "blue"), tools=[ask_user])
    busy = worker("busy", succeed("u", "done"))
    flow = Flow(
        [
            Task("1", name="t", agents=[asking]),
            Task("2", name="u", agents=[busy]),
            Task("3", name="v", depends_on=["t"], agents=[busy]),
        ],
        name="colours",
    )
    return flow, asking, busy


class BarrierModel:
    """A model whose calls wait for each other: it answers once `expected` calls have come."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.here: list[str] = []
        self._all_here = asyncio.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Finish the first task when all are here."""
        self.here.append(request.agent)
        if len(self.here) == self.expected:
            self._all_here.set()
        await self._all_here.wait()
        finish = next(tool.name for tool in request.tools if tool.name.startswith("succeed_"))
        call = FunctionCall(name=finish, args={"result": request.agent})
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]))
