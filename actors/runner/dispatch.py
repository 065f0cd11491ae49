"""Which agents run, one after the other: where a turn or a child begins, and whom its runs transfer it to.

Every run goes through here, whether the Runner asks for it or a supervisor does, so transfers are counted and checked once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from actors.messages import protocol as p
from actors.runner.invoker import Invoker, RunnerEvents
from actors.runner.routing import Routing
from actors.runner.running_turn import Run, RunningTurn


class Dispatch:
    """Runs the agent of a turn, or a child of a run, and follows transfers from there."""

    def __init__(self, routing: Routing, invoker: Invoker, events: RunnerEvents, counts: Counter[str]) -> None:
        self._routing = routing
        self._invoker = invoker
        self._events = events
        self._counts = counts

    def turn(self, turn: RunningTurn) -> Coroutine[Any, Any, p.AnyOutcome]:
        """Run the agent of a turn, or the supervisor at which the turn goes on. Raises FencedError, StoreError."""
        scope = self._routing.scope(turn.config.agent) if turn.config.agent else None
        if turn.progress is None:
            return self._run_each(turn, (self._first_run(turn, turn.agent),), scope=scope, resume=False)
        agents = self._routing.entries(turn.callers, turn.agent, scope=scope)
        is_late = turn.is_late_answer and self._routing.is_in_graph(turn.agent)
        if is_late:
            agents = [self._routing.entry(turn.agent)]
        elif turn.is_late_answer:
            # What the log has of the agent before is of runs that are over.
            turn.begun_seq = turn.message.stored.seq
        # What a graph has been answered is not asked again: as after a loss, all goes on from where the log has it.
        is_resumed = turn.is_resumed or is_late
        if is_resumed:
            # What the log has of each run is all that counts from here on, answers included.
            turn.callers = []
        turn.may_end_early = len(agents) == 1 and (not turn.waiting or all(call.agent == agents[0] for call in turn.waiting))
        runs = [self._first_run(turn, agent) for agent in agents]
        return self._run_each(turn, runs, scope=scope, resume=is_resumed)

    def _first_run(self, turn: RunningTurn, agent: str) -> Run:
        return Run(agent, None, turn.message.stored, None, node=self._routing.own_task(agent))

    @staticmethod
    def child_run(turn: RunningTurn, parent: Run, message: p.RunChild) -> Run:
        """The run that a supervisor asks for, or an agent that has another one as a tool."""
        work = message.work
        return Run(
            message.child,
            message.branch,
            message.user_event or turn.message.stored,
            parent,
            notes=message.notes,
            asked=message.child,
            place=f"{work.run}/{work.round}" if work is not None else message.place,
            traceparent=message.traceparent,
            node=message.node,
            state=message.state,
            state_seq=message.state_seq,
        )

    async def child(self, turn: RunningTurn, run: Run, message: p.RunChild) -> p.AnyOutcome:
        """Carry out a `child_run`. Raises FencedError, StoreError."""
        if message.work is not None:
            return await self._invoker.invoke(turn, run, resume=False, work=message.work)
        # The answers of the user are for the tree: an agent that is asked as a tool has no part in them.
        agents = [message.child]
        if message.user_event is None:
            callers, progress = turn.callers, turn.progress
            if message.resume and progress is not None and turn.after_seq(run) < progress.opened_seq:
                # The newest message has come since the run began: what has gone on since was lost as well.
                callers = self._routing.waiting_callers(progress, turn.config.agent)
            agents = self._routing.entries(callers, message.child, scope=message.child)
        runs = [run if agent == message.child else msgspec.structs.replace(run, agent=agent) for agent in agents]
        return await self._run_each(turn, runs, scope=message.child, resume=message.resume)

    async def _run_each(self, turn: RunningTurn, runs: Sequence[Run], *, scope: str | None, resume: bool) -> p.AnyOutcome:
        """Run agents one after the other: several when the user has answered several that do not have one supervisor.

        Returns:
            The first outcome that is no end and no pause; else Paused if any of them waits; else how the last one ended.
        """
        whole = _Whole()
        outcome = whole.with_next(await self._run(turn, runs[0], scope=scope, resume=resume))
        for run in runs[1:]:
            if not isinstance(outcome, p.Finished | p.Paused):
                break
            if resume or self._routing.is_awaited(turn, run.agent, scope):
                outcome = whole.with_next(await self._run(turn, run, scope=scope, resume=resume))
        if isinstance(outcome, p.Finished | p.Paused):
            return whole.with_waiting(outcome, self._routing.still_waiting(turn, scope))
        return outcome

    async def _run(self, turn: RunningTurn, run: Run, *, scope: str | None, resume: bool) -> p.AnyOutcome:
        """Run an agent, and then each agent that the run before has transferred to.

        Args:
            scope: the child of a workflow, or the tool agent; transfers have to stay at or below it. None: the turn's own agent.
            resume: the agent was begun before: transfers that the log has are followed without running their agents again.

        Returns:
            How the last run ended; it has escalated if any of the runs has. It is paused if any of them waits for the user.
        """
        whole = _Whole()
        while True:
            outcome = _recorded(turn, run) if resume else None
            if outcome is None:
                outcome = await self._invoker.invoke(turn, run, resume=resume)
                resume = False
                # From here on the outcome says which calls of the agent wait, and of a supervisor those below it.
                if turn.waiting:
                    turn.waiting = self._routing.waiting_beside(turn, run)
            outcome = whole.with_next(outcome)
            if not isinstance(outcome, p.Transfer):
                return outcome
            refusal = self._routing.refusal(turn, outcome, scope)
            if refusal is not None:
                return await self._events.fail(turn, run.agent, refusal, run.branch, run.node)
            if run.parent is None:
                turn.follow(outcome)
                # Of an agent that was lost after its transfer, only the log says which calls wait.
                turn.may_end_early = turn.may_end_early and not (whole.call_ids or turn.waiting)
            turn.transfers |= {outcome.seq}
            self._counts["transfers"] += 1
            run = run.transferred(outcome.to, outcome.seq)


class _Whole:
    """Runs that follow each other, seen as one.

    Attributes:
        call_ids: the calls of all of them that wait for the user.
        escalated: any of them has.
    """

    __slots__ = ("call_ids", "escalated")

    def __init__(self) -> None:
        self.call_ids: tuple[str, ...] = ()
        self.escalated = False

    def with_next(self, outcome: p.AnyOutcome) -> p.AnyOutcome:
        """The end of the whole, with one more run: that run's end, but with calls that wait it is no end."""
        if isinstance(outcome, p.Paused | p.Transfer):
            self.call_ids += outcome.call_ids
        self.escalated = self.escalated or outcome.escalated
        return self._ended(outcome)

    def with_waiting(self, outcome: p.AnyOutcome, call_ids: Sequence[str]) -> p.AnyOutcome:
        """The end of the whole, with further calls that wait."""
        if not call_ids:
            return outcome
        self.call_ids += tuple(call for call in call_ids if call not in self.call_ids)
        return self._ended(outcome)

    def _ended(self, outcome: p.AnyOutcome) -> p.AnyOutcome:
        match outcome:
            case p.Paused():
                outcome = msgspec.structs.replace(outcome, call_ids=self.call_ids)
            case p.Finished() if self.call_ids:
                outcome = p.Paused(
                    agent=outcome.agent,
                    llm_calls=outcome.llm_calls,
                    state_seq=outcome.state_seq,
                    mark=outcome.mark,
                    call_ids=self.call_ids,
                )
        if outcome.escalated == self.escalated:
            return outcome
        return msgspec.structs.replace(outcome, escalated=self.escalated)


def _recorded(turn: RunningTurn, run: Run) -> p.AnyOutcome | None:
    """The transfer with which a run has ended according to the log, as its outcome."""
    record = turn.recorded_transfer(run)
    return p.Transfer(agent=run.agent, to=record.to, seq=record.seq) if record is not None else None
