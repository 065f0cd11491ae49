"""Rewinds: a turn and all that followed it are hidden, and the state is as it was before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec

from actors.actor import Handlers
from actors.errors import InvocationNotFoundError
from actors.interfaces.stores import HideEvents, PutState, TurnRow, Write
from actors.layers.stores.records import AddSchedule
from actors.layers.stores.schedule import ScheduleRow
from actors.messages import protocol as p
from actors.messages.event import USER, Event, EventActions, decode_event, new_event_id, new_invocation_id, now_s
from actors.messages.protocol.base import Ack, Lane, Request, Route
from actors.messages.session import SessionKey
from actors.rules.accounting import minus, packed
from actors.rules.checks import state as scopes
from actors.session.log.event_scan import new_event
from actors.session.log.open_turn import TurnExtension
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts, SessionService
from actors.session.sessions import refuse_if_busy


class RewindRequest(Request[Ack], frozen=True, kw_only=True):
    """Hide a turn and all that followed it, and restore the state as it was before.

    Attributes:
        begins: the message that begins a turn in place of those that are hidden, in the same step; None: none does.
        again: the request may have been done before: then nothing is left to do if the log ends with the rewind of that turn.
    """

    route = Route.SESSION
    lane = Lane.CHANGE
    is_sent_once = True

    key: SessionKey
    invocation_id: str
    begins: ScheduleRow | None = None
    again: bool = False


class EarlierRecord(TurnExtension):
    """Keeps the record of a turn that goes on behind events of others: a rewind to before them restores it.

    Attributes:
        row: its record before these events, which carries the one before that; None: it has not gone on behind any.
        seq: the position behind which it has gone on then.
    """

    name: ClassVar[str] = "rewinds"
    row: TurnRow | None = None
    seq: int = 0

    def go_on(self, row: TurnRow, after_seq: int, retried_seq: int | None) -> None:
        """See TurnExtension."""
        if max(row.last_seq, self.seq) < after_seq:
            self.row, self.seq = row, after_seq


class Rewinds(SessionService):
    """Answers RewindRequest.

    Args:
        note_due: has a Runner begin the turn of a message.
    """

    def __init__(self, parts: SessionParts, note_due: Callable[[int | None], None]) -> None:
        self._note_due = note_due
        self._parts = parts
        self._logs = parts.logs
        self._reader = parts.reader
        self._writer = parts.writer

    def handlers(self) -> Handlers:
        """Its message."""
        return {RewindRequest: self.rewind}

    async def rewind(self, message: RewindRequest) -> p.Ack:
        """Hide a turn and all that followed it, and restore the state as it was before.

        Raises InvocationNotFoundError, SessionNotFoundError, SessionBusyError, StoreError.
        """
        log = await self._logs.load(message.key)
        refuse_if_busy(log)
        log.queue.is_taken = True
        try:
            row = await self._reader.turn(message.key, message.invocation_id)
            if row is None and message.again and (await self._ends_with_rewind(message) or await self._begins(message)):
                return p.Ack()
            if row is None:
                raise InvocationNotFoundError(message.invocation_id, message.key.session)
            begins = message.begins
            await self._rewind_to(log, row, [AddSchedule(message.key, begins)] if begins is not None else [])
            self._note_due(begins.due_s if begins is not None else None)
        finally:
            log.queue.start_next()
        return p.Ack()

    async def _ends_with_rewind(self, message: RewindRequest) -> bool:
        events = [decode_event(each.raw, each.seq) for each in await self._reader.events(message.key, limit=1, newest=True)]
        return [event.actions.rewind_before_invocation_id for event in events] == [message.invocation_id]

    async def _begins(self, message: RewindRequest) -> bool:
        """True if the turn of the message has begun."""
        begins = message.begins
        return begins is not None and await self._reader.turn(message.key, begins.id) is not None

    async def _rewind_to(self, log: SessionLog, row: TurnRow, begin: Sequence[Write]) -> None:
        overwritten = scopes.take_back(await self._reader.undos(log.key, row.first_seq))
        removed = tuple(key for key, value in overwritten.items() if not value)
        restored = {key: value[0] for key, value in overwritten.items() if value}
        actions = EventActions(rewind_before_invocation_id=row.invocation_id, state_delta={**restored, **dict.fromkeys(removed)})
        event = Event(id=new_event_id(), invocation_id=new_invocation_id(), author=USER, timestamp=now_s(), actions=actions)
        hidden = HideEvents(log.key, row.first_seq, log.head_seq)
        restored_turns = await self._restored_turns(log, row.first_seq)
        writes: list[Write] = [PutState(log.key, {}, removed), hidden, *restored_turns, *begin]
        await self._writer.add(log, [new_event(event)], writes)
        # Rewinds are rare enough to load the log again.
        log.mark_stale()
        await self._logs.load(log.key)

    async def _restored_turns(self, log: SessionLog, first_seq: int) -> list[Write]:
        """The records that earlier turns had before they went on behind this position. What they have used still counts."""
        await self._parts.access.pending_ends.settle(log.key)
        writes: list[Write] = []
        async for row in self._reader.turns_of(log.key):
            turn = self._reader.turn_of(row)
            if row.first_seq >= first_seq or EarlierRecord.of(turn).seq < first_seq:
                continue
            await self._reader.recall(log.key, turn)
            used = turn.ledger.spent
            while (earlier := EarlierRecord.of(turn)).row is not None and earlier.seq >= first_seq:
                turn = self._reader.turn_of(earlier.row)
            turn.ledger.extra = {}
            await self._reader.recall(log.key, turn, first_seq - 1)
            turn.ledger.extra = minus(used, turn.ledger.spent)
            restored = msgspec.structs.replace(turn.row, epoch=row.epoch, temp=turn.checkpoint(), usage=packed(used))
            writes.append(log.put_turn(restored))
        return writes
