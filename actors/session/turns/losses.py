"""The losses of a turn's processes, of which Runners tell, and which the next Runner goes on counting."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec.structs import replace

from actors.interfaces.records import TurnRow, Write
from actors.messages import protocol as p
from actors.messages.event import USER, now_s
from actors.messages.protocol.progress import RunLosses, TurnProgress
from actors.messages.turn_info import LostProcess, TurnInfo
from actors.rules.routing.branches import state_key
from actors.session.log.event_scan import EventScan
from actors.session.log.open_turn import SessionTurn, TurnExtension
from actors.session.turns.lookup import TurnLookup, missing_notes
from actors.session.turns.parts import SessionParts

MAX_LOST = 50
"""Lost processes that the record of a turn names: it is written again with each change."""

MAX_REASON = 200
"""Characters of why one was lost."""

NEVER_LOST = RunLosses()


class Losses(TurnExtension):
    """Counts the losses of a turn.

    Attributes:
        runs: losses of its runs, as TurnProgress has them.
        processes: the processes that were lost in it since it began.
        resumed_by: the Runner that has resumed or retried it last; "": none has.
    """

    name: ClassVar[str] = "losses"
    runs: dict[str, RunLosses] = msgspec.field(default_factory=dict)
    processes: tuple[LostProcess, ...] = ()
    resumed_by: str = ""

    def dump(self, *, is_over: bool) -> msgspec.Struct:
        """Everything; of a turn that is over the lost processes, for people who look at it."""
        return Losses(processes=self.processes) if is_over else self

    def go_on(self, row: TurnRow, after_seq: int, retried_seq: int | None) -> None:
        """It may have been open for weeks, and its processes were lost with whatever was restarted."""
        self.runs.clear()

    def begin_elsewhere(self, turn: SessionTurn, runner: str) -> None:
        """Count the loss of the Runner for each run that had a call under way, and for the turn, as that of the run ""."""
        if runner not in (turn.runner, self.resumed_by):
            # Else it asks again, since the reply was lost.
            for run in (*turn.calls.under_way(), ""):
                known = self.runs.get(run, NEVER_LOST)
                self.runs[run] = replace(known, times=known.times + 1, seq=turn.head_seq, with_runner=True)
            self._add_process()
        self.resumed_by = runner

    def fold(self, event: EventScan, seq: int) -> None:
        """An agent has stored an event: what was lost before has not kept it from going on."""
        if self.runs and event.author != USER:
            for run in [each for each in self.runs if self.runs[each].seq < seq and _is_of(each, event)]:
                del self.runs[run]

    def count(self, turn: SessionTurn, run: str, times: int, *, ran_code: bool, agent: str, reason: str) -> bool:
        """Count that the process of a run was lost for the nth time. Returns whether that is news: a message may come twice."""
        known = self.runs.get(run, NEVER_LOST)
        if times <= known.times:
            return False
        own = known.own + (1 if known.alone else 0)
        self.runs[run] = RunLosses(times, known.alone, own, turn.head_seq, known.begun_s, ran_code=ran_code)
        if agent:
            self._add_process(agent, reason)
        return True

    def begin_alone(self, turn: SessionTurn, run: str, attempt: int) -> bool:
        """A run begins in a process of its own for the nth time. Returns whether that is news."""
        known = self.runs.get(run, NEVER_LOST)
        if attempt <= known.alone:
            return False
        self.runs[run] = replace(known, alone=attempt, seq=turn.head_seq, begun_s=now_s())
        return True

    def _add_process(self, agent: str = "", reason: str = "") -> None:
        """Note that a process was lost; without an agent the Runner's."""
        one = LostProcess(agent=agent, lost_s=now_s(), reason=reason[:MAX_REASON])
        self.processes = (*self.processes, one)[-MAX_LOST:]

    def add_progress(self, progress: TurnProgress) -> TurnProgress:
        """See TurnExtension."""
        return replace(progress, losses=dict(self.runs)) if self.runs else progress

    def describe(self, info: TurnInfo) -> TurnInfo:
        """See TurnExtension."""
        return replace(info, lost=self.processes) if self.processes else info


def _is_of(run: str, event: EventScan) -> bool:
    """True when the run has stored the event, which may be about a node below it; and for the turn, as the run ""."""
    agent, _, path = run.partition(" ")
    if agent != state_key(event.author, event.branch):
        return not run
    return not path or f"{event.node_path()}/".startswith(f"{path}/")


class LossCounts:
    """Answers AbandonRuns and BeginAlone."""

    def __init__(self, parts: SessionParts, lookup: TurnLookup) -> None:
        self._parts = parts
        self._lookup = lookup

    async def abandon_runs(self, message: p.AbandonRuns) -> p.TurnProgress:
        """Fence off runs of a turn, and tell how far the turn is. Raises FencedError, StoreError."""
        log, turn = await self._lookup.current(message.turn)
        turn.fence(message.lost)
        self._parts.subscriptions.drop_answers(message.turn.key, message.lost)
        # What the runs have sent already may be on its way to the disk; so may this very message, if it comes again.
        await self._parts.access.commits.flush()
        log, turn = await self._lookup.current(message.turn)
        # A supervisor that was abandoned meanwhile has begun again, and with another note.
        notes = missing_notes(turn, [note for note in message.notes if note.run not in turn.abandoned])
        is_news = message.run and Losses.of(turn).count(
            turn, message.run, message.times, ran_code=message.ran_code, agent=message.agent, reason=message.reason
        )
        writes: list[Write] = [log.put_turn(turn.record())] if is_news else []
        if notes or writes:
            await self._parts.writer.add(log, notes, writes)
        return turn.progress()

    async def begin_alone(self, message: p.BeginAlone) -> p.Ack:
        """Store that a run begins in a process of its own, before it does. Raises FencedError, StoreError."""
        # If it was sent before, that may be on its way to the disk, and may not arrive there.
        await self._parts.access.commits.flush()
        log, turn = await self._lookup.current(message.turn)
        if Losses.of(turn).begin_alone(turn, message.run, message.attempt):
            await self._parts.logs.write(log, [log.put_turn(turn.record())])
        return p.Ack()
