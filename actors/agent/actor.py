"""The actor of one agent: it runs the behaviour of the agent's kind for any number of sessions at once.

It holds nothing that the log does not: its compiled views are a cache, and may be lost at any time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from actors.actor import Actor, Handlers, reply_early
from actors.agent.environment import AgentEnvironment, AgentParts
from actors.agent.invocation import Invocation
from actors.agent.views import SessionViews
from actors.behaviours.lifecycle import callback_context, known_failure, log_failure, run_lifecycle, tell_of_failure
from actors.behaviours.llm import run_llm
from actors.definitions.spec import AgentSpec
from actors.definitions.tools.context import Actions
from actors.errors import ActorLostError, FencedError
from actors.errors.tracebacks import whole_traceback
from actors.errors.user_code import is_cancellation
from actors.interfaces.telemetry import RunFacts, enter_run
from actors.messages import protocol as p
from actors.messages.flow import ROUND
from actors.messages.graph import NextAttempt
from actors.messages.protocol.runs import AnyOutcome, Paused
from actors.messages.topology import LLM
from actors.rules.eviction import LruDict
from actors.rules.failures import classes_of, failure, failure_event
from actors.rules.traceparent import parse_traceparent

logger = logging.getLogger(__name__)

STOP_S = 0.5
"""How long a cancelled run may take to clean up."""

MAX_STOPPED = 1_000
"""How many runs an actor remembers that were stopped while it did not run them."""


Run = TypeVar("Run", bound=Invocation)
Behaviour = Callable[[AgentSpec, Run], Coroutine[Any, Any, AnyOutcome]]
"""What a run does, from its beginning or from where it was lost or paused, until its outcome."""


@dataclass(frozen=True)
class AgentKind(Generic[Run]):
    """A kind of agent.

    Attributes:
        run: what a run is to its behaviour: what it knows and can do.
        node: the same of a run that is given a NodeTask; None: `run`.
    """

    behave: Behaviour[Run]
    run: type[Run]
    node: type[Run] | None = None


def with_callbacks(behave: Behaviour[Run]) -> Behaviour[Run]:
    """The behaviour with the agent's callbacks around it. A run that has failed before it was lost does nothing more."""

    async def run_agent(spec: AgentSpec, run: Run) -> AnyOutcome:
        return known_failure(run) or await run_lifecycle(spec, run, lambda: behave(spec, run))

    return run_agent


async def run_llm_agent(spec: AgentSpec, run: Invocation) -> AnyOutcome:
    """Run an LLM agent."""
    # What came before a failure, such as asking toolsets, would fail once more.
    if (failed := known_failure(run)) is not None:
        return failed
    model = run.parts.model
    resolved = await with_tools(spec, run)
    return resolved if isinstance(resolved, Paused) else await run_llm(resolved, model, run, run.interceptors)


async def with_tools(spec: AgentSpec, run: Invocation, *, can_wait: bool = True) -> AgentSpec | Paused:
    """The spec of an LLM agent with tools in place of its toolsets; or Paused, while the user answers what these ask.

    A toolset may need a credential of the user before anything else can be done: the agent asks for it (semantics.md 5.6).

    Args:
        can_wait: the run may wait for the user.
    """
    if not spec.has_toolsets:
        return spec
    return await run.parts.environment.toolsets.resolved(spec, run, run.parts, can_wait=can_wait)


CORE_KINDS: Mapping[str, AgentKind[Any]] = {LLM: AgentKind(run_llm_agent, Invocation)}
"""By the `kind` of the definition."""


class AgentActor(Actor):
    """Runs one agent, and cancels its runs.

    Args:
        name: the actor's, for messages and statistics; by default the agent's.
    """

    def __init__(
        self, spec: AgentSpec, environment: AgentEnvironment, name: str = "", kinds: Mapping[str, AgentKind[Any]] = CORE_KINDS
    ) -> None:
        super().__init__(name or spec.name)
        self._spec = spec
        self._parts = AgentParts(spec, environment)
        self._kinds = kinds
        self._views = SessionViews(spec, environment.views, self._parts.ledger)
        self._runs: dict[p.TurnRef, tuple[asyncio.Task[Any], Invocation]] = {}
        # An engine may deliver StopRun and NotifyRuns before the Invoke that they are meant for, when that is larger.
        self._stopped: LruDict[p.TurnRef, bool] = LruDict(MAX_STOPPED)
        self._notified: LruDict[p.TurnRef, bool] = LruDict(MAX_STOPPED)

    def handlers(self) -> Handlers:
        """The messages that an agent's actor takes."""
        return {
            p.Invoke: self.invoke,
            p.StopRun: self.stop_run,
            p.NotifyRuns: self.notify_runs,
            p.GetStatistics: self.statistics,
            p.Stop: self.stop,
        }

    async def invoke(self, message: p.Invoke) -> p.AnyOutcome:
        """Run the agent, and return how that has ended. Nothing but `stop_run` and `stop` cancels the task of this message."""
        if self._stopped and message.turn in self._stopped:
            return p.Cancelled(agent=self._spec.name)
        self._parts.counts["runs"] += 1
        kind = self._kinds[ROUND if message.work is not None else self._spec.kind]
        run_class = (message.node is not None and kind.node) or kind.run
        run = run_class(self._parts, message, self._views.of(message, run_class.history))
        task = asyncio.current_task()
        assert task is not None
        # Says who has the event loop, should it stand still.
        task.set_name(f"code of agent {self._spec.name!r}")
        self._runs[message.turn] = (task, run)
        if self._notified and message.turn in self._notified:
            run.notify()
        return await self._run(kind, run)

    async def _run(self, kind: AgentKind[Any], run: Invocation) -> p.AnyOutcome:
        """Run the agent."""
        message, clock = run.message, asyncio.get_running_loop().time
        try:
            if message.tells_begun:
                # It has come to its turn beside all others of this process.
                reply_early(p.Ack())
            return await self._outcome(kind, run)
        except asyncio.CancelledError:
            # It was stopped, or its own code has cancelled it.
            return p.Cancelled(agent=self._spec.name)
        finally:
            del self._runs[message.turn]
            run.writer.end_run()
            # Not asked for the loop here: an abandoned run ends without one.
            self._views.end_run(message, run.history, clock())

    async def _outcome(self, kind: AgentKind[Any], run: Invocation) -> p.AnyOutcome:
        message = run.message
        if run.writer.is_stopped:
            return p.Cancelled(agent=self._spec.name)
        trace = parse_traceparent(message.traceparent) if message.traceparent else None
        trace_id = trace.trace_id if trace is not None else ""
        enter_run(RunFacts(run.agent_name, run.user_id, run.session_id, run.invocation_id, message.turn.key.app, trace_id))
        run.telemetry.enter()
        try:
            await run.begin_run(message.since)
            outcome: p.AnyOutcome = await kind.behave(self._spec.as_tool if message.as_tool else self._spec, run)
            if not run.writer.is_stopped:
                await run.interceptors.end_run()
        except (FencedError, ActorLostError):
            # The turn has ended or has another epoch, or it will be resumed because an actor was lost that the run needs: nothing
            # more that this run does may be seen.
            return p.Cancelled(agent=self._spec.name)
        except BaseException as error:
            # The border of the agent: its code, its tools' and its model's client may raise anything. Only the run itself knows
            # whether it is cancelled: a TaskGroup that has failed leaves its task looking so (Python 3.11).
            if run.writer.is_stopped if isinstance(error, asyncio.CancelledError) else is_cancellation(error):
                raise
            outcome = await self._fail(run, error, message.node.again if message.node is not None else None)
        finally:
            run.telemetry.end_run()
        writer = run.writer
        outcome = msgspec.structs.replace(
            outcome,
            # A supervisor returns the outcome of the child that failed below it: its name is what the driver reports.
            agent=outcome.agent or self._spec.name,
            llm_calls=run.run_parts.llm_calls,
            escalated=outcome.escalated or writer.has_escalated,
            state_seq=writer.state_seq,
        )
        # Nothing else refers to it yet.
        if isinstance(outcome, p.Finished):
            msgspec.structs.force_setattr(outcome, "closed", writer.has_closed)
            msgspec.structs.force_setattr(outcome, "output", run.output_of(outcome))
        elif isinstance(outcome, p.Transfer):
            msgspec.structs.force_setattr(outcome, "events", writer.handover.events if writer.handover is not None else ())
        return outcome

    async def _fail(self, run: Invocation, error: BaseException, again: NextAttempt | None) -> p.AnyOutcome:
        """Store the one event of the failure, and log it; `again`: the node that has failed may be tried again."""
        traceback = whole_traceback(error)
        failed = failure(error, traceback)
        try:
            # They would write behind the failure, and beside what a supervisor runs then.
            await run.stop_children()
            await run.writer.record(run.told_by(failure_event(failed)))
        except (FencedError, ActorLostError):
            return p.Cancelled()
        what, level = f"agent {run.agent_name!r}", logging.ERROR
        if again is not None and again.follows(classes_of(failed)):
            what, level = again.failed(what), logging.WARNING
        log_failure(logger, level, what, run, error, traceback)
        if hooks := self._spec.hooks("on_agent_error_callback"):
            await tell_of_failure(hooks, callback_context(run, Actions()), error)
        return failed

    async def stop_run(self, message: p.StopRun) -> p.Ack:
        """Cancel runs; returns when they have ended, or will not: the log is fenced against them."""
        named = [msgspec.structs.replace(message.turn, run=run) for run in message.runs]
        for turn in named:
            if turn not in self._runs:
                self._stopped[turn] = True
        stopped = dict(self._runs[turn] for turn in named if turn in self._runs)
        await _stop(stopped)
        return p.Ack()

    async def notify_runs(self, message: p.NotifyRuns) -> p.Ack:
        """Tell runs that messages may wait for them."""
        for number in message.runs:
            turn = msgspec.structs.replace(message.turn, run=number)
            if (running := self._runs.get(turn)) is not None:
                running[1].notify()
            else:
                self._notified[turn] = True
        return p.Ack()

    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """Return figures of what was done, of the views, and of the process's threads."""
        return self.figures()

    def figures(self) -> p.Statistics:
        """Figures of what was done, of the views, and of the process's threads."""
        environment = self._parts.environment
        views = {"views": len(self._views), "bytes_of_views": self._views.weight}
        process = {"threads_left": environment.threads_left(), "calls_waiting": environment.calls_waiting()}
        counts = {**self._parts.counts, "running": len(self._runs), **views, **process}
        log_file = environment.log_file(self._spec.name)
        node, memory_bytes = environment.process()
        return p.Statistics(
            actor=self.name,
            agent=self._spec.name,
            pid=os.getpid(),
            counts=counts,
            log_file=log_file,
            connections=self.connections(),
            node=node,
            memory_bytes=memory_bytes,
        )

    async def stop(self, _: p.Stop) -> p.Ack:
        """Cancel every run, close the connections of model and toolsets, and hand on what was logged: the process may end now."""
        await _stop(dict(self._runs.values()))
        self._views.clear()
        await self._parts.aclose()
        await self._parts.environment.hand_on_logs()
        return p.Ack()


async def _stop(runs: Mapping[asyncio.Task[Any], Invocation]) -> None:
    """Cancel runs and wait until they have ended. From now on they can write nothing, even if they do not end."""
    for task, run in runs.items():
        run.writer.is_stopped = True
        task.cancel()
    if runs:
        _, deaf = await asyncio.wait(runs, timeout=STOP_S)
        for task in deaf:
            runs[task].interceptors.abandon()
