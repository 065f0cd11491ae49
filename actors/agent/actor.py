"""The actor of one agent: it runs its agent's behaviour for any number of sessions at once.

It holds nothing that the log does not: its compiled views are a cache, and may be lost at any time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from actors.actor import Actor, Handler
from actors.agent.environment import AgentEnvironment
from actors.agent.flow_invocation import FlowInvocation
from actors.agent.invocation import Invocation
from actors.agent.session_view import SessionView
from actors.behaviours.custom import run_custom
from actors.behaviours.flow.controller import run_flow
from actors.behaviours.flow.round import run_round
from actors.behaviours.lifecycle import run_lifecycle
from actors.behaviours.llm.run import run_llm
from actors.behaviours.workflow.run import run_loop, run_parallel, run_sequential
from actors.definitions.tree.spec import AgentSpec
from actors.errors import ActorLostError, FencedError
from actors.errors.user_code import is_being_cancelled, is_cancellation
from actors.interfaces.model import Model
from actors.messages import protocol as p
from actors.messages.event import Event
from actors.messages.session import SessionKey
from actors.rules.capacity.eviction import CacheEviction
from actors.rules.prompt.branches import tool_root
from actors.rules.prompt.history import History
from actors.rules.prompt.task_history import TaskHistory
from actors.rules.recovery.failures import failure

IDLE_S = 600.0
"""A compiled view that was not used for so long goes when another is used; it is made again when it is needed."""

ASKED_SHARE = 16
"""What part of the room for views those may take in which the agent was asked as a tool: they are seldom used again."""

_Where = tuple[SessionKey, str | None, bool]
"""What a view is of: a session, seen from a branch, for work on tasks or not."""

STOP_S = 0.5
"""How long a cancelled run may take to clean up."""


_BEHAVIOURS: Mapping[str, Callable[[AgentSpec, Any], Awaitable[p.AnyOutcome]]] = {
    "custom": run_custom,
    "sequential": run_sequential,
    "parallel": run_parallel,
    "loop": run_loop,
    "flow": run_flow,
}
"""What agents do that no model drives."""


class AgentActor(Actor):
    """See the head of this file.

    Args:
        spec: the agent's definition and its place in the tree.
        environment: what the agents of this process share.
        name: the actor's, for messages and statistics; by default the agent's.
    """

    def __init__(self, spec: AgentSpec, environment: AgentEnvironment, name: str = "") -> None:
        super().__init__(name or spec.name)
        self._spec = spec
        self._environment = environment
        self._model: Model | None = None
        self._views: dict[_Where, SessionView] = {}
        most = spec.limits.max_cache_bytes
        self._usual: CacheEviction[_Where] = CacheEviction(most, IDLE_S)
        self._asked: CacheEviction[_Where] = CacheEviction(most // ASKED_SHARE, IDLE_S)
        self._runs: dict[p.TurnRef, tuple[asyncio.Task[p.AnyOutcome], Invocation]] = {}
        self._counts = {"runs": 0, "events": 0, "partials": 0, "llm_calls": 0}

    def handlers(self) -> Mapping[type[p.Message], Handler]:
        """The messages that an agent's actor takes."""
        return {p.Invoke: self.invoke, p.StopRun: self.stop_run, p.GetStatistics: self.statistics, p.Stop: self.stop}

    async def invoke(self, message: p.Invoke) -> p.AnyOutcome:
        """Run the agent, in a task of its own that `stop_run` can cancel."""
        self._counts["runs"] += 1
        kind = FlowInvocation if message.work or self._spec.definition.kind == "flow" else Invocation
        run = kind(self._spec, message, self._environment, self._view(message), self._counts)
        task = asyncio.create_task(self._run(run))
        self._runs[message.turn] = (task, run)
        try:
            # Shielded, so that a run is not told to stop before it can say nothing more.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not is_being_cancelled():
                return p.Cancelled(agent=self._spec.name)
            await _stopped({task: run})
            raise
        finally:
            del self._runs[message.turn]
            self._rest(_where(message))

    async def _run(self, run: Invocation) -> p.AnyOutcome:
        try:
            await run.begin()
            outcome = await self._behave(run)
        except (FencedError, ActorLostError):
            # The turn belongs to somebody else now, or has ended, or will be taken up anew since whom the run needs was lost:
            # nothing more that this run does may be seen.
            return p.Cancelled(agent=self._spec.name)
        except BaseException as error:
            # The border of the agent: its code, its tools' and its model's client may raise anything. That the run is cancelled
            # the run tells: a TaskGroup that has failed leaves its task looking so (Python 3.11).
            if run.is_stopped if isinstance(error, asyncio.CancelledError) else is_cancellation(error):
                raise
            outcome = await self._failed(run, error)
        if isinstance(outcome, p.Finished):
            outcome = msgspec.structs.replace(outcome, closed=run.has_closed)
        # A supervisor passes on how a run below it has ended: that tells whose run it was, and the driver names who has failed.
        agent = outcome.agent or self._spec.name
        return msgspec.structs.replace(
            outcome,
            agent=agent,
            llm_calls=run.llm_calls,
            escalated=outcome.escalated or run.escalated,
            state_seq=run.state_seq,
        )

    async def _behave(self, run: Invocation) -> p.AnyOutcome:
        spec = self._spec
        if spec.definition.kind == "llm":
            if self._model is None:
                self._model = self._environment.resolve(spec.name, spec.model)
            limiter = self._environment.limiter
            model = self._model if limiter is None else limiter.before(self._model, run.key)
            if isinstance(run, FlowInvocation):
                return await run_round(spec, model, run)
            return await run_llm(spec, model, run)
        behave = _BEHAVIOURS[spec.definition.kind]
        return await run_lifecycle(spec, run, lambda: behave(spec, run))

    async def _failed(self, run: Invocation, error: BaseException) -> p.AnyOutcome:
        """Leave the one event of the failure."""
        failed = failure(error)
        try:
            await run.record(Event(error_code=failed.error_code, error_message=failed.error_message))
        except FencedError:
            return p.Cancelled()
        return failed

    def _view(self, message: p.Invoke) -> SessionView:
        where = _where(message)
        view = self._views.get(where)
        if view is None:
            compiled = History if message.work is None else TaskHistory
            latest_only = message.work is None and getattr(self._spec.definition, "include_contents", "") == "none"
            view = self._views[where] = SessionView(self._spec.name, message.branch, compiled, latest_only=latest_only)
            if tool_root(message.branch) is not None:
                # Nothing before the question is seen there, so it need not be read.
                view.begin_before(message.user_event, message.generation)
        return view

    def _rest(self, where: _Where) -> None:
        """A run is over: what it has made of its view stays for the next one, as far as there is room."""
        view = self._views.get(where)
        if view is None:
            return
        view.rest()
        keeping = self._usual if tool_root(where[1]) is None else self._asked
        now_s = asyncio.get_running_loop().time()
        keeping.use(where, view.weight, now_s)
        for other in keeping.surplus(now_s):
            if other == where:
                # A session may be larger than all that there is room for: that of the latest run stays all the same.
                return
            keeping.drop(other)
            del self._views[other]

    async def stop_run(self, message: p.StopRun) -> p.Ack:
        """Cancel runs; returns when they have ended, or will not: the log is fenced against them."""
        named = (msgspec.structs.replace(message.turn, run=run) for run in message.runs)
        await _stopped(dict(self._runs[turn] for turn in named if turn in self._runs))
        return p.Ack()

    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """Tell what has been done."""
        size = self._usual.weight + self._asked.weight
        counts = {**self._counts, "views": len(self._views), "bytes_of_views": size}
        return p.Statistics(actor=self.name, agent=self._spec.name, pid=os.getpid(), counts=counts)

    async def stop(self, _: p.Stop) -> p.Ack:
        """Cancel every run, and let go of the model's connections."""
        await _stopped(dict(self._runs.values()))
        close = getattr(self._model, "aclose", None)
        if close is not None:
            await close()
        return p.Ack()


def _where(message: p.Invoke) -> _Where:
    return message.turn.key, message.branch, message.work is not None


async def _stopped(runs: Mapping[asyncio.Task[p.AnyOutcome], Invocation]) -> None:
    """Cancel runs and wait until they have ended. From now on they cannot say anything, even if they do not end."""
    for task, run in runs.items():
        run.is_stopped = True
        task.cancel()
    if runs:
        await asyncio.wait(runs, timeout=STOP_S)
