"""The attempts of a graph as a whole, where no graph around it makes them (semantics.md section 8).

What has ended in one attempt stays so in the next. Each attempt that failed leaves a note, so the count is in the log.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

import msgspec

from actors.behaviours.lifecycle import known_failure, log_failure, run_lifecycle
from actors.definitions.tree.spec import AgentSpec
from actors.errors import ActorLostError, FencedError, NodeTimeoutError
from actors.errors.tracebacks import whole_traceback
from actors.layers.graphs.behaviour.node_attempt import next_attempt
from actors.layers.graphs.behaviour.run import GraphRun
from actors.layers.graphs.definitions.graph import Graph
from actors.layers.graphs.runs.invocation import GraphInvocation
from actors.messages.event import Event
from actors.messages.graph import NextAttempt, NodeInfo
from actors.messages.protocol.outcomes import AnyOutcome, Failed
from actors.rules.recovery.failures import classes_of, failure, failure_event

logger = logging.getLogger(__name__)


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
