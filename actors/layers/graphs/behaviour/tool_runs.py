"""The runs that tools of an LLM agent ask for, with `tool_context.run_node` (semantics.md section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import Any, cast

from actors.agent.invocation import Invocation
from actors.behaviours.interceptor import CallTool, RunInterceptor
from actors.errors import ActorLostError, FencedError, NotCarriedOverError
from actors.errors.user_code import is_cancellation
from actors.layers.graphs.behaviour.dynamic import DynamicRuns
from actors.layers.graphs.behaviour.node_attempt import NodePlace
from actors.layers.graphs.behaviour.node_runs import NodeRuns, RunsOwner
from actors.layers.graphs.definitions.edges import AgentName
from actors.layers.graphs.definitions.nodes import FunctionNode
from actors.layers.graphs.rules.sight import UserAnswers
from actors.messages.graph import NodeInfo, root_path
from actors.messages.json_types import JsonValue
from actors.rules.routing.branches import tool_run


class ToolRuns(RunInterceptor):
    """Runs nodes for the calls of one agent's run, each from where the log has it. The agent's children may be run."""

    _recalling: asyncio.Task[None] | None = None

    def call_tool(self, call: CallTool) -> Awaitable[object]:
        """Have the tool run nodes."""
        runs = ToolCallRuns(self, call.tool.name, call.call.id or "")
        call.context.node_runner = runs.run
        call.perform = partial(runs.around, call.perform)
        return self.next.call_tool(call)

    @cached_property
    def _run(self) -> Invocation:
        return cast(Invocation, self.run.context)

    @cached_property
    def _path(self) -> str:
        return self._run.node_path or root_path(self.run.spec.name)

    @cached_property
    def _agents(self) -> dict[str, AgentName]:
        return {name: AgentName(name) for name in self.run.spec.children}

    @cached_property
    def _runs(self) -> NodeRuns:
        return NodeRuns(RunsOwner(self.run.spec.name, self._agents, UserAnswers()), self._run, may_wait=False)

    async def below(self, tool: str, call_id: str) -> DynamicRuns:
        """The runs below one call; of a call that is made again those that are over give what they gave."""
        if self._run.is_resumed and self._recalling is None:
            self._recalling = asyncio.create_task(self._recall())
        if self._recalling is not None:
            await asyncio.shield(self._recalling)
        name = tool_run(tool, call_id)
        info = NodeInfo(path=f"{self._path}/{name}", is_alone=True)
        caller = NodePlace(name, _CALL, self._run.branch, None, info, self._run.begun_seq)
        return DynamicRuns(self._runs, self._agents, caller, may_ask=True)

    async def _recall(self) -> None:
        """Take in the events of this turn that the agent itself has stored for runs below its own."""
        run, below = self._run, f"{self._path}/"
        own = [
            event
            async for event in run.reader.events(run.begun_seq)
            if event.author == run.agent_name and event.invocation_id == run.invocation_id
        ]
        for event in own:
            if (info := event.node_info) is not None and info.path.startswith(below):
                self._runs.recall(info.path.removeprefix(below), event, info)


class ToolCallRuns:
    """The runs below one call of a tool: made ready when the tool asks for the first."""

    def __init__(self, runs: ToolRuns, tool: str, call_id: str) -> None:
        self._runs = runs
        self._tool = tool
        self._call_id = call_id
        self._below: DynamicRuns | None = None

    async def run(self, node: Any, node_input: Any = None, **options: Any) -> JsonValue:
        """Run a node: see ToolContext.run_node."""
        if self._below is None:
            self._below = await self._runs.below(self._tool, self._call_id)
        return await self._below.run(node, node_input, **options)

    async def around(self, perform: Callable[[CallTool], Awaitable[object]], call: CallTool) -> object:
        """Run the tool, and wait for the runs that it has not waited for. Where it fails they are stopped."""
        try:
            result = await perform(call)
            if self._below is not None:
                await self._below.finish()
        except (FencedError, ActorLostError, NotCarriedOverError):
            raise
        except BaseException as error:
            if not is_cancellation(error):
                if self._below is not None:
                    await self._below.stop()
                call.fail(error)
            raise
        return result


async def _called() -> None:
    """Stands for the tool."""


_CALL = FunctionNode(_called, name="call")
