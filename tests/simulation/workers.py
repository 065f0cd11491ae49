"""Turns that say what is done in them: an agent, or an expert that it asks, waits for its model or calls a tool.

Several worlds are of such turns, each of a user, or of a session, of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any

from actors import AgentTool, Content, FunctionCall, FunctionTool, LlmAgent, LlmRequest, LlmResponse, Part, ToolContext
from tests.simulation.agents import history_here
from tests.simulation.programs import Wish


class Task(Wish, frozen=True, kw_only=True):
    """A turn that says what is done in it.

    Attributes:
        does: "think": its model takes its time; "call back": a callback does; else a tool does.
        has_expert: an agent that is a tool is asked, and does it.
        takes_s: how long.
        often: the tool is called so often at once.
    """

    does: str = "work"
    has_expert: bool = False
    takes_s: float = 0.0
    often: int = 1


class Tasks:
    """The turns of the simulation that runs now, by their ids, and what their tools, callbacks and models do."""

    def __init__(self, tasks: Sequence[Task], do: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        self.by_turn: Mapping[str, Task] = {task.turn: task for task in tasks}
        self.do = do
        NOW[:] = [self]


NOW: list[Tasks] = []


async def work(turn: str, tool_context: ToolContext) -> str:
    """Do what a turn is there for."""
    noted = history_here().begin_tool(tool_context.function_call_id)
    await NOW[0].do(NOW[0].by_turn[turn])
    history_here().end_tool(noted)
    return f"{turn} is done"


async def before_model(callback_context: Any, llm_request: LlmRequest) -> None:
    """Do it here, where the turn wants that."""
    task = _asked(llm_request)
    if task.does == "call back":
        await NOW[0].do(task)


class WorkerModel:
    """Has the tool work, or asks the expert, and then says that it is done."""

    def __init__(self, *, is_expert: bool = False) -> None:
        self._is_expert = is_expert

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        task, often = _asked(request), 1
        if any(request.contents[-1].function_responses()) or task.does == "call back":
            part = Part(text=f"{task.turn} is done")
        elif task.does == "think":
            await NOW[0].do(task)
            part = Part(text=f"{task.turn} is done")
        elif task.has_expert and not self._is_expert:
            part = Part(function_call=FunctionCall(name="expert", args={"request": f"do {task.turn}"}))
        else:
            part, often = Part(function_call=FunctionCall(name="work", args={"turn": task.turn})), task.often
        yield LlmResponse(content=Content(role="model", parts=[part] * often))


def _asked(request: LlmRequest) -> Task:
    """The turn that the user's last message names."""
    texts = (
        content.text
        for content in reversed(request.contents)
        if content.role == "user" and not any(content.function_responses()) and content.text
    )
    return NOW[0].by_turn[next(texts).split()[-1]]


def tree() -> LlmAgent:
    """An agent, and the expert that it may ask."""
    tool = FunctionTool(work)
    expert = LlmAgent(name="expert", description="Knows.", model=WorkerModel(is_expert=True), tools=[tool])
    return LlmAgent(name="root", model=WorkerModel(), tools=[tool, AgentTool(expert)], before_model_callback=before_model)
