"""Going on after losses: of Runners, and of the processes of runs, which the next Runner goes on counting."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec.structs import replace

from actors.errors import StoreError, StoreUnavailableError
from actors.interfaces.stores import TurnRow, Write
from actors.messages import protocol as p
from actors.messages.event import USER, now_s
from actors.messages.protocol.turns import RunLosses, TurnProgress
from actors.messages.session import Shard
from actors.messages.turn_info import LostProcess, TurnInfo
from actors.rules.routing.branches import state_key
from actors.rules.routing.selection import selectable
from actors.rules.sharding import holds
from actors.session.log.event_scan import EventScan, scan
from actors.session.log.open_turn import SessionTurn, TurnExtension
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts
from actors.session.turns.lookup import TurnLookup, missing_notes

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


class TurnRecovery:
    """Answers AnnounceRunner, ListOpenTurns and ResumeTurn, AbandonRuns and BeginAlone."""

    def __init__(self, parts: SessionParts, lookup: TurnLookup) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._reader = parts.reader
        self._lookup = lookup

    async def announce_runner(self, message: p.AnnounceRunner) -> p.Ack | p.NotLeader:
        """Give a Runner the place of the one before, and drop what that had in the queues."""
        refusal = self._parts.runners.announce(message.runner, message.number, message.term)
        if refusal is not None:
            return refusal
        self._drop_predecessor(message.runner, message.shard)
        return p.Ack()

    def _drop_predecessor(self, runner: str, shard: Shard) -> None:
        for log in self._logs.all_in_memory(in_use=True):
            if not holds(shard, log.key):
                continue
            if log.turn is not None and log.turn.runner != runner:
                # Lost until it is resumed. Should that fail, the next subscriber learns that it is lost.
                log.turn.runner = ""
            log.queue.send_back(lambda waiter: waiter.runner != runner)

    async def list_open_turns(self, message: p.ListOpenTurns) -> p.OpenTurnsReply | p.NotLeader:
        """Drop what a Runner's predecessor had in the queues, and list the turns that it has left open. Raises StoreError."""
        refusal = self._parts.runners.refusal(message.runner, message.term)
        if refusal is not None:
            return refusal
        self._drop_predecessor(message.runner, message.shard)
        lost = []
        rows = await self._reader.open_turns(message.app)
        for log in self._logs.all_in_memory(in_use=True):
            if log.turn is not None and log.is_stale and holds(message.shard, log.key):
                # The store may have its end, of which only actors that were lost would have asked.
                await self._logs.find(log.key)
        for key, row in rows:
            if not holds(message.shard, key) or not holds(self._parts.shard, key):
                continue
            log_in_memory = self._logs.in_memory(key)
            turn = log_in_memory.turn if log_in_memory is not None else None
            # One that is resumed by a request whose commit is under way, and may fail, is listed as well.
            is_resumed = turn is not None and (turn.row.invocation_id, turn.row.epoch) == (row.invocation_id, row.epoch)
            if turn is None or turn.runner != message.runner or not is_resumed:
                lost.append((key, row.invocation_id))
        return p.OpenTurnsReply(turns=lost)

    async def resume_turn(self, message: p.ResumeTurn) -> p.ResumeTurnReply:
        """Give an open turn to a Runner with a new epoch, which fences off the Runner that had it. Raises StoreError."""
        while True:
            log = await self._logs.find(message.key)
            turn = log.turn if log is not None else None
            if log is None or turn is None or turn.row.invocation_id != message.invocation_id:
                if self._parts.access.pending_ends.owes_end(message.key, message.invocation_id):
                    # Should this actor be lost before, the turn is open.
                    raise StoreUnavailableError("the session store", "the end of the turn is still to be stored")
                return p.Ack()
            if not turn.is_ending:
                break
            # The end may not get to the disk.
            await turn.settled()
        refusal = self._parts.runners.refusal(message.runner, message.term)
        if refusal is not None:
            return refusal
        if message.running is not None and log.is_current(message.running):
            turn.runner = message.runner
            return p.Ack()
        self._parts.versions.go_on(log, turn, log.head_seq)
        turn.begin_elsewhere(message.runner)
        # A concurrent request gets a later epoch, and fences off this one.
        epoch = turn.row.epoch
        self._parts.subscriptions.drop_answers(log.key)
        try:
            await self._logs.write(log, [log.put_turn(turn.record())])
            return await self.resumed(log, turn, epoch)
        except StoreError:
            if turn.row.epoch == epoch:
                # Lost as before: the Runner that asks again for open turns has to hear of it.
                turn.runner = ""
            raise

    async def resumed(self, log: SessionLog, turn: SessionTurn, epoch: int) -> p.TurnResumed:
        """The reply with which a Runner goes on with a turn. Raises StoreError."""
        log.queue.note_opened()
        opened_seq = turn.row.opened_seq
        event = (await self._reader.events(log.key, after_seq=opened_seq - 1, limit=1))[0]
        scanned = scan(event.raw)
        answered = await self._reader.calls(log.key, scanned.answered())
        authors = await self._reader.authors(log.key, opened_seq)
        return p.TurnResumed(
            invocation_id=turn.row.invocation_id,
            epoch=epoch,
            seq=opened_seq,
            event=event.raw,
            config=turn.config,
            caller=answered[0].author if answered else scanned.for_task(),
            generation=log.generation,
            authors=self._parts.deciding(selectable(authors), turn.row.version),
            progress=turn.progress(),
            traceparent=turn.traceparent,
            version=turn.row.version,
        )

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
