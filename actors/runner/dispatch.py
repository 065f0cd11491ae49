"""Which agents run, one after the other: where a turn or a child begins, and whom its runs transfer it to.

Every run goes through here, whether the Runner asks for it or a supervisor does, so transfers are counted and checked once.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from actors.messages import protocol as p
from actors.runner.events import RunnerEvents
from actors.runner.invoker import Invoker
from actors.runner.routing import Routing
from actors.runner.runs import Run
from actors.runner.turns.running_turn import RunningTurn


class Dispatch:
    """Runs the agent of a turn, or a child of a run, and follows transfers from there.

    Args:
        routing: which agent is next.
        invoker: runs one agent.
        events: leaves the event of a transfer that is refused.
        counts: the Runner's figures.
    """

    def __init__(self, routing: Routing, invoker: Invoker, events: RunnerEvents, counts: Counter[str]) -> None:
        self._routing = routing
        self._invoker = invoker
        self._events = events
        self._counts = counts

    async def turn(self, turn: RunningTurn) -> p.AnyOutcome:
        """Run the agent of a turn, or the supervisor at which the turn goes on. Raises FencedError, StoreError."""
        agent = self._routing.entry(turn, turn.agent, scope=None)
        if turn.is_resumed:
            # What the log has of each run is all that counts from here on, answers included.
            turn.callers = []
        run = Run(agent, None, turn.message.stored, parent=None)
        return await self._run(turn, run, scope=None, resume=turn.is_resumed)

    async def child(self, turn: RunningTurn, parent: Run, message: p.RunChild) -> p.AnyOutcome:
        """Run an agent for its supervisor, or for the agent that has it as a tool. Raises FencedError, StoreError."""
        user_event = message.user_event or turn.message.stored
        if message.work is not None:
            run = Run(message.child, message.branch, user_event, parent)
            return await self._invoker.invoke(turn, run, resume=False, work=message.work)
        agent = self._routing.entry(turn, message.child, scope=message.child)
        run = Run(agent, message.branch, user_event, parent)
        return await self._run(turn, run, scope=message.child, resume=message.resume)

    async def _run(self, turn: RunningTurn, run: Run, *, scope: str | None, resume: bool) -> p.AnyOutcome:
        """Run an agent, and then each agent that the run before has transferred to.

        Args:
            scope: the child of a workflow, or the tool agent; transfers have to stay at or below it. None: the turn's own agent.
            resume: the agent was begun before: transfers that the log has are followed without running their agents again.

        Returns:
            How the last run ended; it has escalated if any of the runs has.
        """
        escalated = False
        while True:
            outcome = _recorded(turn, run) if resume else None
            if outcome is None:
                outcome = await self._invoker.invoke(turn, run, resume=resume)
                resume = False
            escalated = escalated or outcome.escalated
            if not isinstance(outcome, p.Transfer):
                return msgspec.structs.replace(outcome, escalated=escalated)
            refusal = self._routing.refusal(turn, outcome, scope)
            if refusal is not None:
                return await self._events.fail(turn, run.agent, refusal, run.branch)
            turn.transfers += 1
            self._counts["transfers"] += 1
            run = run.transferred(outcome.to, outcome.seq)


def _recorded(turn: RunningTurn, run: Run) -> p.AnyOutcome | None:
    """The transfer with which a run has ended according to the log, as its outcome."""
    record = turn.recorded_transfer(run)
    return p.Transfer(agent=run.agent, to=record.to, seq=record.seq) if record is not None else None
