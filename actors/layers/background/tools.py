"""The tools with which an agent looks after its background runs, and the interceptor that gives it these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from actors.actor import KeyedLocks
from actors.behaviours.interceptor import RunInterceptor, RunParts
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.spec import AgentSpec
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.definitions.tools.function import FunctionTool, tool
from actors.errors import RequestError
from actors.layers.agent_tool import AgentTool
from actors.layers.background.client import SessionRuns
from actors.messages.content import Content
from actors.messages.json_types import JsonObject
from actors.messages.session import SessionKey, digest
from actors.messages.turn_info import BackgroundRun


class KnowsRuns(RunInterceptor):
    """Gives an agent that has others in the background the tools to look after them, and has it read what has waited for it."""

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For LLM agents with an AgentTool in the background."""
        definition = spec.definition
        tools = definition.tools if isinstance(definition, LlmAgent) else ()
        return any(isinstance(tool, AgentTool) and tool.background is not None for tool in tools)

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """For each run."""
        run.context.notify()
        return cls(run)

    def tools(self) -> Sequence[Tool]:
        """The four tools."""
        return (*_TOOLS, *self.next.tools())


async def check_run(run: str, context: ToolContext) -> JsonObject:
    """Look how far a background run is: its status, and its result when it is done.

    Args:
        run: the id of the run.
    """
    try:
        [found] = await _runs(context).list([run], heard_by=context.invocation_id)
    except RequestError as error:
        return {"error": str(error)}
    return _shown(found)


async def steer_run(run: str, message: str, context: ToolContext) -> JsonObject:
    """Tell the agent of a background run something while it works.

    Args:
        run: the id of the run.
        message: what it is to know, or to do.
    """
    message_id = f"steer-{digest(f'{context.invocation_id} {context.function_call_id}')}"
    try:
        return _shown(await _runs(context).steer(run, Content.of_text(message), message_id))
    except RequestError as error:
        return {"error": str(error)}


async def cancel_run(run: str, context: ToolContext) -> JsonObject:
    """Cancel a background run.

    Args:
        run: the id of the run.
    """
    try:
        found = await _runs(context).cancel(run)
    except RequestError as error:
        return {"error": str(error)}
    return _shown(found) if found.is_over else {"run": run, "status": "is being cancelled"}


async def wait_for_runs(
    context: ToolContext, runs: list[str] | None = None, wanted: Literal["any", "all"] = "all", timeout_s: float = 60
) -> JsonObject:
    """Wait until background runs have ended, and return how.

    Args:
        runs: the ids of the runs; by default all of this conversation.
        wanted: whether to wait for all of them, or for any.
        timeout_s: seconds to wait at most.
    """
    try:
        wait_s = min(max(timeout_s, 0), 3_600)
        found = await _runs(context).wait(runs or [], wanted, wait_s, heard_by=context.invocation_id)
    except RequestError as error:
        return {"error": str(error)}
    return {"runs": [_shown(run) for run in found]}


@tool
async def ask_parent(question: str, context: ToolContext) -> JsonObject:
    """Ask the agent that has started this work in the background, and wait for its answer.

    Args:
        question: what you need to know.
    """
    async with _ASKING.locked(context.session_key):
        try:
            await _runs(context).ask_parent(question, f"{context.invocation_id} {context.function_call_id}")
        except RequestError as error:
            return {"error": str(error)}
        return {"answer": (await context.next_message()).text}


_ASKING = KeyedLocks[SessionKey]()
"""Of the sessions of runs: an answer does not say what it answers, so each question waits for the answer to the one before."""

_TOOLS = tuple(FunctionTool(each) for each in (check_run, steer_run, cancel_run, wait_for_runs))


def _runs(context: ToolContext) -> SessionRuns:
    runs = context.reach(SessionRuns)
    if runs is None:
        raise RequestError("there are no background runs outside of a run")
    return runs


def _shown(run: BackgroundRun) -> JsonObject:
    """A run as models see it."""
    shown: JsonObject = {"run": run.id, "agent": run.agent, "status": run.status}
    return shown | {name: value for name in ("result", "error") if (value := getattr(run, name))}
