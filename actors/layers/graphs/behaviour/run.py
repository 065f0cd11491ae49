"""What a graph does: it runs the nodes that are next, until none is (semantics.md section 8).

Each end of a node is an event of the graph, and the ends in the order of the log are all that the graph goes on from after a
pause or a loss: what has ended is not run again, and every other node begins again, or goes on if it is an agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import msgspec

from actors.behaviours.lifecycle import known_failure, log_failure, run_lifecycle
from actors.definitions.spec import AgentSpec
from actors.errors import ActorLostError, FencedError, NodeTimeoutError, SeveralOutputsError, StarvedJoinError
from actors.errors.hints import did_you_mean
from actors.errors.tracebacks import whole_traceback
from actors.layers.graphs.behaviour.node_attempt import NodeEnd, NodeFailed, NodePlace, NodeResult, next_attempt
from actors.layers.graphs.behaviour.node_runs import NodeRuns, RunsOwner
from actors.layers.graphs.definitions.edges import AgentName
from actors.layers.graphs.definitions.graph import Graph
from actors.layers.graphs.definitions.nodes import FunctionNode, JoinNode
from actors.layers.graphs.rules.progress import NOT_STORED, GraphProgress, NodeRun
from actors.layers.graphs.runs import ASKED, GraphInvocation
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.graph import NextAttempt, NodeInfo, Route, is_below, node_at
from actors.messages.protocol.runs import AnyOutcome, Failed, Finished, Paused, path_of_words
from actors.rules.failures import classes_of, failure, failure_event

logger = logging.getLogger(__name__)


class GraphRun:
    """One run of a graph, from START or from where it was when it was paused, lost or failed, to its end or to a pause."""

    def __init__(self, spec: AgentSpec, context: GraphInvocation) -> None:
        self._spec = spec
        self._graph = cast(Graph, spec.definition)
        self._context = context
        task = context.task
        given = context.user_content if task is None else task.data if task.content is None else task.content
        self._path = context.path
        self._output_for = (self._path, *task.output_for) if task is not None else (self._path,)
        if self._graph.input_type is not None and given is not None:
            given = (
                self._graph.input_type.of_user(given.text)
                if isinstance(given, Content)
                else self._graph.input_type.data_of(given)
            )
        self._progress = GraphProgress(
            self._graph.shape, context.branch, given, self._graph.max_concurrency, since=context.begun_seq
        )
        around = task.unstored if task is not None else {}
        owner = RunsOwner(self._graph.name, self._graph.agents, context.answers, self._graph.state, around, context.after_seq)
        self._runs = NodeRuns(owner, context)
        self._tasks: dict[asyncio.Task[NodeResult], NodePlace] = {}
        self._done: list[asyncio.Task[NodeResult]] = []
        self._has_done = asyncio.Event()
        self._waits: list[str] = []
        self._unstored: list[NodeEnd] = []
        self._has_to_store = False
        self._routes: tuple[Route, ...] = ()
        # Joins that check nothing: they cannot fail, and are over as soon as they begin.
        self._at_once = {
            name for name, each in self._graph.nodes.items() if isinstance(each, JoinNode) and each.input_type is None
        }

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
        if self._waits:
            await self._context.note({ASKED: self._context.progress.get(ASKED, self._context.user_seq)})
            return Paused(call_ids=tuple(self._waits))
        for join, lacking in self._progress.starved().items():
            raise StarvedJoinError(self._graph.name, join, ", ".join(map(repr, lacking)))
        if self._has_too_many_outputs():
            raise SeveralOutputsError(self._graph.name, ", ".join(map(repr, self._progress.outputs)))
        output = self._progress.output
        if self._graph.output_type is not None and output is not None:
            output = self._graph.output_type.data_of(output)
        return Finished(output=output, routes=self._routes)

    def _recall(self) -> None:
        """Follow what the log has."""
        for event in self._context.done:
            info = event.node_info
            name = self._name_at(info.path) if info is not None else ""
            if info is None or not name:
                continue
            if (end := self._runs.recall(name, event, info)) is not None:
                self._follow(name, end, event.branch, event.seq)
                self._runs.stored_seq = event.seq
        if self._context.is_resumed:
            self._runs.may_have_begun = frozenset(self._progress.next_names())

    def _name_at(self, path: str) -> str:
        """The name of the run in this graph that has the path; "" when none has."""
        if not is_below(path, self._path):
            return ""
        below = path.removeprefix(self._path)
        return f"{self._graph.name}@1{below}" if self._graph.is_function else below.removeprefix("/")

    async def _run_nodes(self) -> NodeResult | None:
        """Run nodes until none is under way and none can begin; or return what ends the graph."""
        while True:
            # While an agent waits for the user's words nothing more begins, which would speak in between.
            is_first = not self._tasks
            for run in self._progress.begin() if not self._awaits_words() else ():
                place = self._place(run, is_first=is_first)
                task = asyncio.create_task(self._runs.run(place))
                self._tasks[task] = place
                task.add_done_callback(self._note_done)
            if not self._tasks:
                return None
            await self._has_done.wait()
            done = self._in_order()
            stopped = await self._take_in([(self._tasks.pop(task), task.result()) for task in done])
            if stopped is not None:
                return stopped

    def _note_done(self, task: asyncio.Task[NodeResult]) -> None:
        self._done.append(task)
        self._has_done.set()

    def _in_order(self) -> Sequence[asyncio.Task[NodeResult]]:
        """The tasks that are done since they were asked for last, in the order in which they began."""
        done, self._done = self._done, []
        self._has_done.clear()
        if len(done) == 1:
            return done
        ended = set(done)
        return [task for task in self._tasks if task in ended]

    def _place(self, run: NodeRun, *, is_first: bool = False) -> NodePlace:
        name = run.name
        if self._graph.is_function:
            info = NodeInfo(path=self._path, output_for=self._output_for[1:], is_alone=not self._context.is_node)
        else:
            output_for = self._output_for if self._graph.shape.is_terminal(run.node) else ()
            info = NodeInfo(path=f"{self._path}/{name}", output_for=output_for)
        since = min(run.since, self._runs.stored_seq)
        return NodePlace(name, self._graph.nodes[run.node], run.branch, run.given, info, since, is_first)

    async def _take_in(self, results: Sequence[tuple[NodePlace, NodeResult]]) -> NodeResult | None:
        """Store the ends of nodes, and follow them; or return the first result that ends the graph."""
        ends = [(place, result) for place, result in results if isinstance(result, NodeEnd)]
        stopped = next((result for _, result in results if not isinstance(result, NodeEnd)), None)
        for place, end in ends:
            if end.is_waiting:
                self._waits.extend(end.waits)
                self._progress.pause(place.name)
            else:
                self._follow(place.name, end, end.events[-1].branch)
                self._warn_of_routes(node_at(place.info.path), end.routes)
        self._unstored += [end for _, end in ends]
        # Where only agents have ended, their own events say so: a graph that is lost asks them again, and they say the same. So
        # it stores what follows from their ends before anything begins because of it, and many that end one by one together.
        self._has_to_store |= not all(end.is_of_agent for _, end in ends)
        while stopped is None and not self._awaits_words() and self._progress.has_only_next(self._at_once):
            await self._take_in_joins()
        if self._has_to_store or stopped is not None or not self._tasks or self._progress.has_next:
            unstored, self._unstored, self._has_to_store = self._unstored, [], False
            graph_end = self._end() if stopped is None else None
            await self._runs.store(self._followed(unstored) if graph_end is not None else unstored, graph_end)
        return stopped

    def _warn_of_routes(self, node: str, routes: Sequence[Route]) -> None:
        """Say which routes of a node lead nowhere: most of them are misspelt, and the graph ends as if all were well."""
        for route in self._graph.shape.unknown_routes(node, routes):
            known = self._graph.shape.routes_of(node)
            logger.warning(
                "node %r of graph %r has said the route %r, which none of its edges has, and leads nowhere by it. "
                "Its edges have %s.%s An edge with DEFAULT_ROUTE is for all others",
                node,
                self._graph.name,
                route,
                ", ".join(map(repr, known)),
                did_you_mean(str(route), [str(each) for each in known]),
            )

    def _followed(self, ends: Sequence[NodeEnd]) -> Sequence[NodeEnd]:
        """The ends that are stored with that of the graph: of agents that lead nowhere their own events have said it.

        One is left in any case: the end of the graph is stored with it.
        """
        kept = [end for end in ends if not (end.is_of_agent and self._leads_nowhere(end))]
        return kept or ends[-1:]

    def _leads_nowhere(self, end: NodeEnd) -> bool:
        info = end.events[-1].node_info
        return info is not None and self._graph.shape.is_terminal(node_at(info.path))

    async def _take_in_joins(self) -> None:
        """Run the joins that are next, which are over at once, to be stored with the ends that have led to them."""
        for run in self._progress.begin():
            end = cast(NodeEnd, await self._runs.run(self._place(run)))
            self._follow(run.name, end, run.branch)
            self._unstored.append(end)
            self._has_to_store = True

    def _end(self) -> Finished | None:
        """The outcome of the graph, when nothing can stand against its end any more; None as long as something can."""
        goes_on = self._tasks or self._waits or self._progress.has_next or self._progress.starved()
        is_open = self._graph.output_type is not None or self._has_too_many_outputs()
        if goes_on or is_open or self._spec.hooks("after_agent_callback"):
            return None
        return Finished(output=self._progress.output, routes=self._routes)

    def _has_too_many_outputs(self) -> bool:
        return self._graph.one_output and len(self._progress.outputs) > 1

    def _follow(self, name: str, end: NodeEnd, branch: str | None, seq: int = NOT_STORED) -> None:
        node = self._graph.nodes.get(name.rpartition("@")[0])
        may_wait = isinstance(node, FunctionNode | AgentName) and node.wait_for_output
        waits = may_wait and end.output is None and not end.routes
        if self._graph.is_function:
            self._routes = tuple(end.routes)
        self._progress.end(name, end.output, end.routes, branch, leads_on=not waits, seq=seq)

    def _awaits_words(self) -> bool:
        return any(map(path_of_words, self._waits))

    async def stop_nodes(self) -> None:
        """Stop the nodes that still run, and return when they have ended. Raises FencedError."""
        for task, place in self._tasks.items():
            task.cancel()
            await self._runs.stop(place.node)
            with suppress(asyncio.CancelledError, Exception):
                await task

    async def _stop(self, stopped: NodeResult) -> AnyOutcome:
        """Stop the nodes that still run, and say in the log that one has failed."""
        await self.stop_nodes()
        if not isinstance(stopped, NodeFailed):
            return cast(AnyOutcome, stopped)
        if stopped.event is not None:
            await self._context.emit(stopped.event)
        return stopped.failed


async def run_graph(spec: AgentSpec, context: GraphInvocation) -> AnyOutcome:
    """Run a graph, from START or from where it was when it was paused or lost, to its end or to a pause; again when it fails."""
    # It finds out itself whether it has failed before, since it may be tried again.
    return await run_lifecycle(spec, context, lambda: _run(spec, context))


async def _run(spec: AgentSpec, context: GraphInvocation) -> AnyOutcome:
    graph = cast(Graph, spec.definition)
    is_tried = graph.retry_config is not None or graph.timeout is not None
    if is_tried and not context.is_node:
        return await GraphAttempts(spec, context).run()
    return known_failure(context) or await GraphRun(spec, context).run()


class GraphAttempts:
    """Runs a graph until an attempt does not fail, or none is left."""

    def __init__(self, spec: AgentSpec, context: GraphInvocation) -> None:
        self._spec = spec
        self._graph = cast(Graph, spec.definition)
        self._context = context

    async def run(self) -> AnyOutcome:
        """The outcome of the last attempt. Raises FencedError."""
        context = self._context
        # An attempt whose failure was stored before the process was lost is over.
        outcome: AnyOutcome = known_failure(context) or await self._attempt()
        while isinstance(outcome, Failed):
            again = self._following(outcome)
            if again is None:
                break
            info = NodeInfo(path=context.path, attempt=context.attempt, is_note=True)
            await context.record_all([Event(branch=context.branch, node_info=info)])
            await context.clock.sleep(again.delay_s)
            await context.begin_again()
            outcome = await self._attempt()
        return outcome

    def _following(self, failed: Failed) -> NextAttempt | None:
        """The attempt of the graph that follows a failure; None: there is none."""
        context, retry = self._context, self._graph.retry_config
        return next_attempt(retry, context.attempt, context.invocation_id, context.path, classes_of(failed))

    async def _attempt(self) -> AnyOutcome:
        run = GraphRun(self._spec, self._context)
        try:
            async with asyncio.timeout(self._graph.timeout) as timer:
                return await run.run()
        except (FencedError, ActorLostError):
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and timer.expired():
                await run.stop_nodes()
                error = NodeTimeoutError(self._graph.name, self._graph.timeout)
            return await self._told(error)

    async def _told(self, error: Exception) -> Failed:
        """Store the one event of a failure that no node has told, and log it."""
        traceback = whole_traceback(error)
        failed = failure(error, traceback)
        what, level = f"graph {self._graph.name!r}", logging.ERROR
        if (again := self._following(failed)) is not None:
            what, level = again.failed(what), logging.WARNING
        log_failure(logger, level, what, self._context, error, traceback)
        info = NodeInfo(path=self._context.path)
        event = msgspec.structs.replace(failure_event(failed), branch=self._context.branch, node_info=info)
        await self._context.record_all([event])
        return failed
