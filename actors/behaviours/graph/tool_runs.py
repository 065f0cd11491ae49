"""The runs that tools of an LLM agent ask for, with `tool_context.run_node` (semantics.md section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from actors.behaviours.graph.dynamic import DynamicRuns
from actors.behaviours.graph.node_runs import NodeRuns, RunsOwner
from actors.behaviours.graph.results import NodePlace
from actors.definitions.graphs.edges import AgentName
from actors.definitions.graphs.nodes import FunctionNode
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.context import Context
from actors.messages.graph import NodeInfo, root_path
from actors.messages.json_types import JsonValue
from actors.rules.routing.branches import tool_run


class ToolRuns:
    """Runs nodes for the calls of one agent's run, each from where the log has it.

    Args:
        spec: the agent: its children may be run.
        context: its run.
    """

    def __init__(self, spec: AgentSpec, context: Context) -> None:
        self._agents = {name: AgentName(name) for name in spec.children}
        self._context = context
        self._path = context.node_path or root_path(spec.name)
        self._runs = NodeRuns(RunsOwner(spec.name, self._agents), context, may_wait=False)
        self._recalling: asyncio.Task[None] | None = None

    async def below(self, tool: str, call_id: str) -> DynamicRuns:
        """The runs below one call; of a call that is made again those that are over give what they gave."""
        if self._context.is_resumed and self._recalling is None:
            self._recalling = asyncio.create_task(self._recall())
        if self._recalling is not None:
            await asyncio.shield(self._recalling)
        name = tool_run(tool, call_id)
        info = NodeInfo(path=f"{self._path}/{name}", is_alone=True)
        caller = NodePlace(name, _CALL, self._context.branch, None, info, self._context.begun_seq)
        return DynamicRuns(self._runs, self._agents, caller, may_ask=True)

    async def _recall(self) -> None:
        events: Sequence[Any] = await self._context.own_below(self._path)
        for event in events:
            if (info := event.node_info) is not None:
                self._runs.recall(info.path.removeprefix(f"{self._path}/"), event, info)


class CallRuns:
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

    async def finish(self) -> None:
        """Wait for the runs that the tool has not waited for."""
        if self._below is not None:
            await self._below.finish()

    async def stop(self) -> None:
        """Stop all runs: the tool has failed."""
        if self._below is not None:
            await self._below.stop()


async def _called() -> None:
    """Stands for the tool."""


_CALL = FunctionNode(_called, name="call")
