"""How one run of an agent is sent to its actor, repeated after a loss, alone if it may end processes, fenced and stopped."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from actors.errors import ActorLostError, ClusterError, FencedError, PluginFailedError, RaygroveError
from actors.errors.tracebacks import foreign_traceback
from actors.interfaces.transport import AgentDirectory, Link
from actors.messages import protocol as p
from actors.messages.event import Event, encode_event, new_event_id, now_s
from actors.messages.flow import CONTROLLER, Work
from actors.messages.graph import NodeInfo, NodeTask
from actors.messages.topology import CUSTOM, GRAPH, AgentNode
from actors.refs import AgentRef, SessionRef
from actors.rules.checks.state import only_temp, without_temp
from actors.rules.failures import failure, failure_event
from actors.rules.routing.branches import tool_root
from actors.rules.suspects import BEGINNING_S, NEVER_LOST, Waiting, is_given_up, is_suspect, next_alone, waiting_run
from actors.runner.routing import Routing
from actors.runner.running_turn import Run, RunningTurn, TurnSpans, numbers

GATHERED_S = 0.25
"""What was lost with a Runner asks to go on within this time after it was recovered; until then none of it begins."""


logger = logging.getLogger(__name__)


MANY_CALLS = 100
"""While more model calls are left, the first one of a run that asks for each is counted before it begins: it need not ask.

With fewer, one that is not made after all could have another refused.
"""

STOP_S = 0.8
"""An actor that takes longer to stop a run does not listen any more, and is replaced."""


class _Order(msgspec.Struct, frozen=True):
    """How a run is to be run.

    Attributes:
        asks: its model calls are counted here, one by one: it may go on beside others.
        resume: it was begun before and was lost: it goes on from what the log has of it.
        resume_at: where it goes on after a pause.
        work: the round of a flow that it does.
        counted: model calls that were counted beforehand: those that it does not make are given back.
    """

    node: AgentNode
    asks: bool
    resume: bool
    resume_at: tuple[str, ...]
    work: Work | None
    counted: int

    def again(self) -> _Order:
        """The order of the run by another actor. What the lost one was given may be used: only a round has no call but that."""
        return msgspec.structs.replace(self, resume=True, counted=self.counted if self.work is not None else 0)


class Invoker:
    """Runs one agent per call of `invoke`, again if its actor is lost, and stops runs.

    Args:
        may_close: the last event of a turn's last run may carry the end of the turn.
    """

    def __init__(
        self,
        session: SessionRef,
        directory: AgentDirectory,
        routing: Routing,
        events: RunnerEvents,
        counts: Counter[str],
        isolation: Isolation,
        *,
        may_close: bool,
    ) -> None:
        self._session = session
        self._directory = directory
        self._routing = routing
        self._events = events
        self._counts = counts
        self._isolation = isolation
        self._may_close = may_close

    def invoke(self, turn: RunningTurn, run: Run, *, resume: bool, work: Work | None = None) -> Coroutine[Any, Any, p.AnyOutcome]:
        """Run one agent, by as many actors as it takes. Raises FencedError, StoreError."""
        running = self._outcome(turn, run, resume=resume, work=work)
        return running if turn.trace is None else _traced(turn.trace, run, running)

    async def _outcome(self, turn: RunningTurn, run: Run, *, resume: bool, work: Work | None) -> p.AnyOutcome:
        order = self._order(turn, run, resume=resume, work=work)
        turn.calls.count(order.counted)
        lost: ActorLostError | None = None
        while True:
            try:
                outcome = await self._run(turn, run, order, lost)
            except ActorLostError as error:
                # Runs that share an actor are lost together, and those that wait for one to live get the same error.
                if turn.trace is not None:
                    turn.trace.lost(run, error)
                try:
                    await self._abandon(turn, run, error)
                except FencedError:
                    # Ending the turn was the last thing that the actor did.
                    return p.Finished(agent=run.agent, closed=True)
                # With its traceback, which has this frame, it would keep itself and the process that was lost.
                run, order, lost = run.repeated(), order.again(), error.with_traceback(None)
            except ClusterError as error:
                turn.runs.end_run(run)
                return await self._events.fail(turn, run.agent, error, run.branch, run.node)
            else:
                turn.runs.end_run(run)
                turn.calls.end_run(outcome.llm_calls, counted=order.counted, was_lost=lost is not None)
                if outcome.state_seq > turn.state_seq:
                    turn.state_seq = outcome.state_seq
                return outcome

    def _run(self, turn: RunningTurn, run: Run, order: _Order, lost: ActorLostError | None) -> Coroutine[Any, Any, p.AnyOutcome]:
        """Run the agent by one actor. Raises ActorLostError, ClusterError, FencedError, StoreError.

        Args:
            lost: the loss of the actor before.
        """
        progress = turn.progress
        if progress is None or not progress.losses:
            # As in most turns.
            return self._run_once(turn, run, order, alone=False)
        if is_given_up(run.key, progress.losses):
            error = lost or ActorLostError(f"agent {run.agent!r}", "its process was lost too often while it was alone there")
            return self._events.fail(turn, run.agent, error, run.branch, run.node)
        if is_suspect(run.key, progress.losses, progress.under_way, (*order.node.tool_agents, *order.node.delegates)):
            return self._run_alone(turn, run, order, progress.losses)
        return self._run_once(turn, run, order, alone=False)

    async def _run_alone(self, turn: RunningTurn, run: Run, order: _Order, losses: Mapping[str, p.RunLosses]) -> p.AnyOutcome:
        """Run the agent in a process of its own. That it begins is stored before: no loss of other processes undoes that."""
        async with self._isolation.alone(waiting_run(run.key, losses)):
            attempt = losses.get(run.key, NEVER_LOST).alone + 1
            await self._session.ask(p.BeginAlone(turn=turn.ref, run=run.key, attempt=attempt))
            return await self._run_once(turn, run, order, alone=True)

    async def _run_once(self, turn: RunningTurn, run: Run, order: _Order, *, alone: bool) -> p.AnyOutcome:
        turn.runs.begin_run(run)
        self._counts["invocations"] += 1
        message = self._message(turn, run, order)
        # Nothing may be awaited between these two lines: see Directory.link.
        run.link = await self._directory.link(run.agent, turn.ref.key, alone=alone)
        if turn.has_messages and tool_root(run.branch) is None:
            message = msgspec.structs.replace(message, has_messages=True)
        return await AgentRef(run.link).invoke(message, turn.release_slot)

    def _order(self, turn: RunningTurn, run: Run, *, resume: bool, work: Work | None) -> _Order:
        node = self._routing.topology[run.agent]
        resume_at: tuple[str, ...] = ()
        if turn.callers and tool_root(run.branch) is None:
            resume_at = self._routing.resume_at(turn, run.agent)
            # A pause ends a custom agent's code as a loss does: it begins again, and what it has said before is not said again.
            # A graph goes on from its events, and so do its nodes.
            # An agent with delegates goes on with the calls that these work for.
            goes_on = node.kind in (CUSTOM, GRAPH) or bool(node.delegates) or run.node is not None
            resume = resume or (bool(resume_at) and goes_on)
        # Nested runs, and runs that nest others, may go on side by side, so their model calls are counted here.
        asks = run.parent is not None or bool(node.tool_agents or node.delegates)
        if work is not None:
            # A round of a flow has one model call.
            counted = min(1, turn.calls.left)
        else:
            counted = 1 if asks and not resume and node.is_llm and turn.calls.left > MANY_CALLS else 0
        return _Order(node, asks, resume, resume_at, work, counted)

    def _message(self, turn: RunningTurn, run: Run, order: _Order) -> p.Invoke:
        is_fresh, turn.is_fresh = turn.is_fresh, False
        after_seq = turn.after_seq(run) if order.resume else 0
        noted_seq, progress = turn.agent_state(run, after_seq) if order.resume or order.resume_at else (0, {})
        if turn.message.flow and run.agent == CONTROLLER:
            progress = {**progress, "definition": turn.message.flow}
        return p.Invoke(
            turn=turn.by(run),
            agent=run.agent,
            branch=run.branch,
            as_tool=run.is_tool,
            closes=turn.agent if run.parent is None and self._may_close and turn.may_end_early else "",
            user_event=run.user_event,
            fresh=is_fresh,
            before=turn.before if is_fresh and turn.before and order.node.is_llm else (),
            after=turn.after if is_fresh else (),
            state=turn.state if is_fresh else run.state,
            state_seq=run.state_seq if run.state and not is_fresh else turn.state_seq,
            config=turn.config,
            # Model calls that the run may make without asking.
            llm_calls=order.counted if order.work is not None or order.asks else turn.calls.left,
            asks_for_more=order.work is None and order.asks,
            traceparent=turn.trace.traceparent(run) if turn.trace is not None else turn.traceparent,
            tells_begun=turn.release_slot is not None,
            place=run.path if order.node.kind == CUSTOM else "",
            resume_at=order.resume_at if order.node.kind in (CUSTOM, GRAPH) or not order.resume else (),
            progress=progress,
            noted_seq=noted_seq,
            resume=order.resume,
            since=after_seq,
            retried_seq=turn.retried_seq,
            work=order.work,
            node=run.node,
            notes=run.notes,
            first_seq=turn.progress.first_seq if turn.progress is not None else 0,
        )

    async def _abandon(self, turn: RunningTurn, run: Run, error: ActorLostError) -> None:
        """Fence a run that was lost with its actor, and all that it asked for. Raises FencedError when the turn has ended."""
        is_news = turn.note_lost(run.link or error)
        if run.link is not None:
            self._directory.drop_link(run.agent, run.link)
        lost = turn.runs.which(lambda each: each.is_below(run))
        # The lost one, too: its process may live on without a connection, until the Session actor refuses what it writes.
        turn.runs.begin_stopping(lost)
        waits = turn.runs.waits(run)
        turn.runs.stop_waiting(lambda asked: asked is not run and asked.is_below(run))
        await self.stop(turn, [each for each in lost if each is not run])
        known = turn.progress.losses if turn.progress is not None else {}
        abandon = p.AbandonRuns(
            turn=turn.ref,
            lost=numbers(lost),
            notes=run.notes,
            run=run.key,
            times=known.get(run.key, NEVER_LOST).times + 1,
            # What it has asked for runs elsewhere, or is over and the reply was not sent.
            ran_code=self._routing.topology[run.agent].kind in (CUSTOM, GRAPH) and not waits,
            agent=run.agent if is_news else "",
            reason=str(error),
        )
        progress = await self._session.ask(abandon)
        turn.runs.end_runs(lost)
        turn.apply_progress(progress, self._routing.llm_calls(progress), self._routing.waiting_calls(progress))

    async def stop(self, turn: RunningTurn, runs: Sequence[Run]) -> None:
        """Stop runs, all at the same time. An actor that does not reply is replaced, else it would delay every later turn.

        Which run ends first is not known, so from the first moment on none gets a reply to what it has asked for.
        """
        turn.runs.begin_stopping(runs)
        by_actor: dict[tuple[str, Link], list[Run]] = {}
        for run in runs:
            if run.link is not None:
                by_actor.setdefault((run.agent, run.link), []).append(run)
        await asyncio.gather(*(self._stop_at(turn, agent, link, stopped) for (agent, link), stopped in by_actor.items()))
        turn.runs.end_runs(runs)

    async def stop_for_good(self, turn: RunningTurn, runs: Sequence[Run]) -> None:
        """Stop runs of a turn that goes on. What they had sent is stored then, or will not be. Raises FencedError, StoreError."""
        await self.stop(turn, runs)
        if runs:
            await self._session.ask(p.AbandonRuns(turn=turn.ref, lost=numbers(runs)))

    async def _stop_at(self, turn: RunningTurn, agent: str, link: Link, runs: Sequence[Run]) -> None:
        with suppress(ActorLostError):
            try:
                async with asyncio.timeout(STOP_S):
                    await AgentRef(link).ask(p.StopRun(turn=turn.ref, runs=numbers(runs)))
            except TimeoutError:
                self._directory.drop_link(agent, link)


async def _traced(trace: TurnSpans, run: Run, running: Coroutine[Any, Any, p.AnyOutcome]) -> p.AnyOutcome:
    """The outcome of a run, which gets a span."""
    outcome: p.AnyOutcome | None = None
    trace.begin_run(run)
    try:
        outcome = await running
    finally:
        trace.end_run(run, outcome)
    return outcome


class Isolation:
    """The runs of a Runner that go on alone, and those that wait for it.

    Args:
        recovered: waits until the turns of a Runner that was lost run here: what was lost with it begins in the right order then.
    """

    def __init__(self, recovered: Callable[[], Awaitable[None]]) -> None:
        self._recovered = recovered
        self._waiting: dict[asyncio.Future[None], Waiting] = {}
        self._beginning: dict[asyncio.Future[None], Waiting] = {}
        self._running = 0

    @asynccontextmanager
    async def alone(self, run: Waiting) -> AsyncIterator[None]:
        """Inside the block the run goes on alone. Entering it may take a while."""
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        if run.with_runner:
            await self._recovered()
            self._waiting[place] = run
            loop.call_later(GATHERED_S, self._let_in)
        else:
            self._waiting[place] = run
            self._let_in()
        try:
            await place
            yield
        finally:
            if self._waiting.pop(place, None) is None:
                self._running -= 1
            self._beginning.pop(place, None)
            self._let_in()

    def _let_in(self) -> None:
        places = list(self._waiting)
        while (index := next_alone(list(self._waiting.values()), list(self._beginning.values()), self._running)) is not None:
            place = places.pop(index)
            self._beginning[place] = self._waiting.pop(place)
            self._running += 1
            if not place.done():
                place.set_result(None)
            asyncio.get_running_loop().call_later(BEGINNING_S, self._has_begun, place)

    def _has_begun(self, place: asyncio.Future[None]) -> None:
        if self._beginning.pop(place, None) is not None:
            self._let_in()


class RunnerEvents:
    """Appends events in the name of an agent."""

    def __init__(self, session: SessionRef) -> None:
        self._session = session

    async def append(self, turn: RunningTurn, author: str, event: Event) -> None:
        """Store an event that was made in the Runner. Raises FencedError, RequestError, StoreError."""
        changed = event.actions.state_delta
        complete = msgspec.structs.replace(
            event,
            id=new_event_id(),
            invocation_id=turn.ref.invocation_id,
            author=author,
            timestamp=now_s(),
            actions=msgspec.structs.replace(event.actions, state_delta=without_temp(changed)),
        )
        await self._session.ask(p.Append(turn=turn.ref, events=[encode_event(complete)], temp=only_temp(changed)))

    async def fail(
        self, turn: RunningTurn, agent: str, error: RaygroveError, branch: str | None = None, node: NodeTask | None = None
    ) -> p.Failed:
        """Store the event of a failure that the agent cannot store itself. Raises FencedError, StoreError.

        Args:
            node: the agent ran as this node of a graph, which is the author of the event then.
        """
        outcome = failed(agent, error)
        event = failure_event(outcome, branch)
        if node is not None:
            event = msgspec.structs.replace(event, node_info=NodeInfo(path=node.path))
        await self.append(turn, node.graph or agent if node is not None else agent, event)
        if not isinstance(error, PluginFailedError):
            # A plugin's failure is in the log already, with its traceback.
            key, invocation_id = turn.key
            where = (invocation_id, key.session, key.user)
            logger.error("agent %r failed in turn %s of session %r of user %r: %s", agent, *where, error)
        return outcome


def failed(agent: str, error: RaygroveError) -> p.Failed:
    """The outcome of a run that ended with one of this project's own errors."""
    return msgspec.structs.replace(failure(error, foreign_traceback(error)), agent=agent)
