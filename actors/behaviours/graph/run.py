"""What a graph does: it runs the nodes that are next, until none is (semantics.md section 8).

Each end of a node is an event of the graph, and the ends in the order of the log are all that the graph goes on from after a
pause or a loss: what has ended is not run again, and every other node begins again, or goes on if it is an agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple, cast

import msgspec

from actors.behaviours.chance import seeded_share
from actors.behaviours.failure_log import log_failure
from actors.behaviours.graph.function_node import NodeCall, NodeEnd, ended, question
from actors.behaviours.graph.node_attempt import NodeAttempt
from actors.definitions.graphs.edges import AgentName
from actors.definitions.graphs.graph import Graph
from actors.definitions.graphs.nodes import FunctionNode
from actors.definitions.tree.spec import AgentSpec
from actors.errors import FencedError, NodeTimeoutError, StarvedJoinError
from actors.errors.tracebacks import whole_traceback
from actors.interfaces.context import GraphContext
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.graph import NodeInfo, NodeTask
from actors.messages.json_types import JsonValue
from actors.messages.protocol.outcomes import AnyOutcome, Failed, Finished, Paused
from actors.rules.graph.answers import flaw
from actors.rules.graph.progress import GraphProgress, NodeRun
from actors.rules.recovery.failures import failure

logger = logging.getLogger(__name__)

ASKED = "asked"
"""The progress that a graph notes when it pauses: the place of the message that its first nodes are given."""


async def run_graph(spec: AgentSpec, context: GraphContext) -> AnyOutcome:
    """Run the nodes of a graph, from START or from where it was when it was paused or lost, to its end or to a pause."""
    return await GraphRun(spec, context).run()


class _NodeFailed(NamedTuple):
    """A function has failed for good. `event`: says so, and is not stored yet."""

    event: Event
    failed: Failed


_Result = NodeEnd | _NodeFailed | AnyOutcome
"""What comes of a node's run."""

_NodeTask = asyncio.Task[_Result]


class GraphRun:
    """One run of a graph."""

    def __init__(self, spec: AgentSpec, context: GraphContext) -> None:
        self._graph = cast(Graph, spec.definition)
        self._context = context
        task = context.task
        given = context.user_content if task is None else task.data if task.content is None else task.content
        self._path = task.path if task is not None else f"{spec.name}@1"
        self._output_for = (self._path, *task.output_for) if task is not None else (self._path,)
        self._progress = GraphProgress(self._graph.shape, context.branch, given, self._graph.max_concurrency)
        self._tasks: dict[_NodeTask, NodeRun] = {}
        self._done: asyncio.Queue[_NodeTask] = asyncio.Queue()
        self._attempts: dict[str, NodeAttempt] = defaultdict(NodeAttempt)
        self._waiting: list[str] = []
        self._may_have_begun: frozenset[str] = frozenset()

    async def run(self) -> AnyOutcome:
        """The run, from where it is to its end or to where it waits for the user."""
        self._recall()
        try:
            stopped = await self._run_nodes()
        finally:
            for task in self._tasks:
                task.cancel()
        if stopped is not None:
            return await self._stop(stopped)
        if self._waiting:
            await self._context.note({ASKED: self._context.progress.get(ASKED, self._context.user_seq)})
            return Paused(call_ids=tuple(self._waiting))
        for join, lacking in self._progress.starved().items():
            raise StarvedJoinError(self._graph.name, join, ", ".join(map(repr, lacking)))
        return Finished(output=self._progress.output)

    def _recall(self) -> None:
        """Follow what the log has."""
        prefix = f"{self._path}/"
        for event in self._context.done:
            info = event.node_info
            if info is None or not info.path.startswith(prefix):
                continue
            name = info.path.removeprefix(prefix)
            attempt = self._attempts[name]
            if info.attempt:
                self._attempts[name] = NodeAttempt(info.attempt + 1, attempt.asked)
                continue
            attempt.add(event, self._context.answers)
            if info.has_ended:
                del self._attempts[name]
                output = attempt.output if info.handed_on is None else info.handed_on
                self._progress.end(name, output, attempt.routes, attempt.branch)
        if self._context.is_resumed:
            self._may_have_begun = frozenset(self._progress.next_names())

    async def _run_nodes(self) -> _NodeFailed | AnyOutcome | None:
        """Run nodes until none is under way and none can begin; or return what ends the graph."""
        while True:
            for run in self._progress.begin():
                task = asyncio.create_task(self._run_node(run))
                self._tasks[task] = run
                task.add_done_callback(self._done.put_nowait)
            if not self._tasks:
                return None
            done = {await self._done.get()}
            while not self._done.empty():
                done.add(self._done.get_nowait())
            stopped = await self._take_in([(self._tasks.pop(task), task.result()) for task in self._in_order(done)])
            if stopped is not None:
                return stopped

    def _in_order(self, done: set[_NodeTask]) -> list[_NodeTask]:
        """Tasks in the order in which they began."""
        return list(done) if len(done) == 1 else [task for task in self._tasks if task in done]

    async def _take_in(self, results: Sequence[tuple[NodeRun, _Result]]) -> _NodeFailed | AnyOutcome | None:
        """Store the ends of nodes, and follow them; or return the first result that ends the graph."""
        ends: list[tuple[NodeRun, NodeEnd]] = []
        stopped = None
        for run, result in results:
            match result:
                case NodeEnd():
                    ends.append((run, result))
                case Finished():
                    ends.append((run, self._noted_end(run, result.output)))
                case Paused():
                    self._pause(run, result.call_ids)
                case _:
                    stopped = stopped or result
        for is_note, together in groupby(ends, key=lambda each: each[1].is_note):
            events = [event for _, end in together for event in end.events]
            if not events:
                continue
            await (self._context.record_all(events) if is_note else self._context.emit_all(events))
        for run, end in ends:
            if end.waits:
                self._pause(run, end.waits)
            else:
                self._progress.end(run.name, end.output, end.routes, end.events[-1].branch)
        return stopped

    def _pause(self, run: NodeRun, waits: Sequence[str]) -> None:
        self._waiting.extend(waits)
        self._progress.pause(run.name)

    async def _run_node(self, run: NodeRun) -> _Result:
        node = self._graph.nodes[run.node]
        info = NodeInfo(
            path=f"{self._path}/{run.name}",
            output_for=self._output_for if self._graph.shape.is_terminal(run.node) else (),
        )
        if isinstance(node, AgentName):
            return await self._run_agent(run, node, info)
        if isinstance(node, FunctionNode):
            return await self._run_function(run, node, info)
        output = cast(JsonValue, run.given)
        return NodeEnd([ended(Event(branch=run.branch, node_info=info, output=output))], output)

    async def _run_agent(self, run: NodeRun, node: AgentName, info: NodeInfo) -> AnyOutcome:
        content = run.given if isinstance(run.given, Content) else None
        data = None if isinstance(run.given, Content) else run.given
        task = NodeTask(
            path=info.path,
            content=content,
            data=data,
            output_for=info.output_for,
            sees_conversation=node.sees_conversation,
        )
        return await self._context.run_node(run.node, task, branch=run.branch, resume=run.name in self._may_have_begun)

    def _noted_end(self, run: NodeRun, output: JsonValue) -> NodeEnd:
        """The log has what the node has said, or the user; the graph notes that the run is over, and what of it goes on."""
        info = NodeInfo(path=f"{self._path}/{run.name}", handed_on=output)
        return NodeEnd([ended(Event(branch=run.branch, node_info=info), is_note=True)], output, is_note=True)

    async def _run_function(self, run: NodeRun, node: FunctionNode, info: NodeInfo) -> NodeEnd | _NodeFailed:
        answers = self._context.answers
        attempt = self._attempts.pop(run.name, None) or NodeAttempt()
        if attempt.waits and (end := self._answered(run, node, info, attempt)) is not None:
            return end
        while True:
            call = NodeCall(node, info, run.given, run.branch, attempt, attempt.inputs(answers), self._context)
            try:
                return await _within(call, node)
            except FencedError:
                raise
            except Exception as error:
                traceback = whole_traceback(error)
                failed = failure(error, traceback)
                what = f"node {node.name!r} of graph {self._graph.name!r}"
                log_failure(logger, logging.ERROR, what, self._context, error, traceback)
                chance = seeded_share(f"{self._context.invocation_id} {info.path} {attempt.number}")
                delay_s = node.retry_delay_s(error, attempt.number, chance)
            if delay_s is None:
                return _NodeFailed(call.failed(failed, is_retried=False), failed)
            await self._context.emit(call.failed(failed, is_retried=True))
            await self._context.clock.sleep(delay_s)
            attempt = NodeAttempt(attempt.number + 1, attempt.asked)

    def _answered(self, run: NodeRun, node: FunctionNode, info: NodeInfo, attempt: NodeAttempt) -> NodeEnd | None:
        """The end of a run, or its pause, that follows from the answers to its questions; None: the function is called again."""
        inputs = attempt.inputs(self._context.answers)
        wrong = {
            call_id: flaw(inputs[call_id], args.get("response_schema") or {})
            for call_id, args in attempt.waits.items()
            if call_id in inputs
        }
        again = [call_id for call_id, reason in wrong.items() if reason]
        if again:
            questions = [question(call_id, {**attempt.waits[call_id], "error": wrong[call_id]}) for call_id in again]
            told = [msgspec.structs.replace(event, branch=run.branch, node_info=NodeInfo(path=info.path)) for event in questions]
            return NodeEnd(told, waits=list(attempt.waits))
        missing = [call_id for call_id in attempt.waits if call_id not in inputs]
        if node.rerun_on_resume:
            if not attempt.is_answered(self._context.answers):
                return NodeEnd([], waits=missing)
            attempt.begin_again()
            return None
        if missing:
            return NodeEnd([], waits=missing)
        output = inputs[next(iter(inputs))] if len(inputs) == 1 else cast(JsonValue, inputs)
        return self._noted_end(run, output)

    async def _stop(self, stopped: _NodeFailed | AnyOutcome) -> AnyOutcome:
        """Stop the nodes that still run, and say in the log that one has failed."""
        for task, run in self._tasks.items():
            if isinstance(self._graph.nodes[run.node], AgentName):
                await self._context.stop_child(run.node)
            with suppress(asyncio.CancelledError, Exception):
                await task
        if not isinstance(stopped, _NodeFailed):
            return stopped
        await self._context.emit(stopped.event)
        return stopped.failed


async def _within(call: NodeCall, node: FunctionNode) -> NodeEnd:
    """The end of an attempt. Raises NodeTimeoutError when it takes longer than the node may."""
    try:
        async with asyncio.timeout(node.timeout) as timer:
            return await call.run()
    except TimeoutError as error:
        if timer.expired():
            raise NodeTimeoutError(node.name, node.timeout) from error
        raise
