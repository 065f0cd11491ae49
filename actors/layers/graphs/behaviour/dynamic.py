"""The runs that a function asks for itself, with `ctx.run_node` (semantics.md section 8)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from actors.definitions.agents.base import BaseAgent
from actors.errors import DynamicNodeFailError, UnknownAgentError
from actors.layers.graphs.behaviour.node_attempt import (
    NodeEnd,
    NodeFailed,
    NodeInterruptedError,
    NodePlace,
    NodeResult,
    RunsBelow,
)
from actors.layers.graphs.definitions.checks import misfit
from actors.layers.graphs.definitions.edges import AgentName, EdgeReader, GraphNode, name_of_end
from actors.layers.graphs.definitions.nodes import FunctionNode, ParallelWorker, TriedAgent
from actors.layers.graphs.rules.progress import Given
from actors.messages.graph import NodeInfo
from actors.messages.json_types import JsonValue
from actors.messages.protocol.runs import AnyOutcome, Failed
from actors.rules.failures import error_of


class FailedBelow(NamedTuple):
    """A run has failed, and the function was told so by an error."""

    error: DynamicNodeFailError
    failed: Failed


class DynamicRuns:
    """The runs that one attempt of a function asks for.

    The function runs again from its start after an answer or a loss, and asks for the same runs: those that are over give what
    they gave.

    Args:
        agents: the agents that may run, by name.
        caller: the run of the function.
        may_ask: the function is called again when it has to be; else it may ask for none.

    Attributes:
        waits: for what of the user these runs wait.
        stopped: the outcome of an agent with which the graph ends.
        output: of the run that was asked for as the function's own output; None without one.
    """

    def __init__(self, runs: RunsBelow, agents: Mapping[str, GraphNode], caller: NodePlace, *, may_ask: bool) -> None:
        self._runs = runs
        self._agents = agents
        self._caller = caller
        self._may_ask = may_ask
        self._reader = EdgeReader()
        self._numbers: Counter[str] = Counter()
        self._tasks: dict[asyncio.Task[NodeResult], GraphNode] = {}
        self.waits: list[str] = []
        self.stopped: AnyOutcome | None = None
        self.output: NodeEnd | None = None
        self.failed: list[FailedBelow] = []

    async def run(
        self,
        node: object,
        node_input: Given = None,
        *,
        use_as_output: bool = False,
        run_id: str | None = None,
        use_sub_branch: bool = False,
        override_branch: str | None = None,
    ) -> JsonValue:
        """Run a node below the function: see NodeContext.run_node."""
        if not self._may_ask:
            raise ValueError(f"{self._caller.info.path} uses run_node, so it has to be a node with rerun_on_resume=True")
        if run_id is not None and run_id.isdigit():
            raise ValueError(f"run_id {run_id!r} has digits only: these number the runs without an id of their own")
        if use_as_output and self.output is not None:
            raise ValueError(f"{self._caller.info.path} already has a use_as_output delegate: its output is that of one run")
        place = self._place(self._node(node), node_input, run_id, use_sub_branch, override_branch, use_as_output)
        if (misfitting := misfit(place.node, node_input)) is not None:
            raise misfitting
        ended = self._runs.known(place.name).result
        if ended is None or _goes_on(place.node, ended):
            ended = await self._ended(place)
        if isinstance(ended, NodeFailed):
            error = DynamicNodeFailError(place.info.path, ended.failed.error_message)
            self.failed.append(FailedBelow(error, ended.failed))
            raise error from error_of(ended.failed)
        if use_as_output:
            self.output = ended
        return ended.output

    async def finish(self) -> None:
        """Wait for the runs that the function does not wait for itself, once it has been interrupted."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def stop(self) -> None:
        """Stop all runs."""
        for task, node in self._tasks.items():
            if not task.done():
                task.cancel()
                await self._runs.stop(node)
            with suppress(asyncio.CancelledError, Exception):
                await task

    def cancel(self) -> None:
        """Cancel the runs, where the graph itself is being stopped."""
        for task in self._tasks:
            task.cancel()

    def _node(self, given: object) -> GraphNode:
        if isinstance(given, ParallelWorker):
            return given.of(self._node(given.node))
        name = given if isinstance(given, str) else name_of_end(given)
        if name in self._agents:
            agent = self._agents[name]
            if isinstance(given, TriedAgent | AgentName) and isinstance(agent, AgentName):
                return agent.tried(given.retry_config, given.timeout)
            return agent
        if isinstance(given, str | BaseAgent | TriedAgent | AgentName):
            raise UnknownAgentError(name, f" {self._caller.info.path} can run the agents of its graph: give it in sub_agents.")
        node = self._reader.node(given)
        assert not isinstance(node, BaseAgent | TriedAgent)
        if isinstance(node, FunctionNode) and node.placement is not None:
            raise ValueError(f"{node.name!r} has a placement, which run_node cannot give it: put it into the edges of a graph")
        return node

    def _place(
        self,
        node: GraphNode,
        given: Given,
        run_id: str | None,
        use_sub_branch: bool,
        override_branch: str | None,
        use_as_output: bool,
    ) -> NodePlace:
        caller = self._caller
        if run_id is None:
            self._numbers[node.name] += 1
        label = f"{node.name}@{run_id or self._numbers[node.name]}"
        branch = caller.branch
        if override_branch is not None:
            branch = override_branch
        elif use_sub_branch:
            branch = f"{branch}.{label}" if branch else label
        output_for = (caller.info.path, *caller.info.output_for) if use_as_output else ()
        info = NodeInfo(path=f"{caller.info.path}/{label}", output_for=output_for, is_alone=caller.info.is_alone)
        return NodePlace(f"{caller.name}/{label}", node, branch, given, info, caller.since)

    async def _ended(self, place: NodePlace) -> NodeEnd | NodeFailed:
        task = asyncio.create_task(self._runs.run_below(place))
        self._tasks[task] = place.node
        # The run goes on to its end, or to its pause, when the function has been interrupted by another one.
        result = await asyncio.shield(task)
        match result:
            case NodeEnd() if result.is_waiting:
                self.waits.extend(result.waits)
            case NodeEnd() | NodeFailed():
                return result
            case _:
                self.stopped = self.stopped or result
        raise NodeInterruptedError(place.info.path)


def _goes_on(node: GraphNode, known: NodeEnd | NodeFailed) -> bool:
    """True for a run that waits for the user, or was to wait for an output and had none: it runs again when its caller does."""
    waits = isinstance(node, FunctionNode | AgentName) and node.wait_for_output
    return isinstance(known, NodeEnd) and (known.is_waiting or (waits and known.output is None))
