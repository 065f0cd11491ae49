"""Rewinds: a turn and all that followed it are hidden, and the state is as it was before."""

from __future__ import annotations

from actors.actor import Handlers
from actors.errors import InvocationNotFoundError
from actors.interfaces.records import HideEvents, PutState, TurnRow, Write
from actors.layers.rewinds.messages import RewindRequest
from actors.messages import protocol as p
from actors.messages.codec import decode_event
from actors.messages.event import USER, Event, EventActions, new_event_id, new_invocation_id, now_s
from actors.rules.checks import state as scopes
from actors.session.log.event_scan import new_event
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionService
from actors.session.sessions import refuse_if_busy
from actors.session.turns.parts import SessionParts


class Rewinds(SessionService):
    """Answers RewindRequest."""

    def __init__(self, parts: SessionParts) -> None:
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
            if row is None and message.again and await self._ends_with_rewind(message):
                return p.Ack()
            if row is None:
                raise InvocationNotFoundError(message.invocation_id, message.key.session)
            await self._rewind_to(log, row)
        finally:
            log.queue.start_next()
        return p.Ack()

    async def _ends_with_rewind(self, message: RewindRequest) -> bool:
        events = [decode_event(each.raw, each.seq) for each in await self._reader.events(message.key, limit=1, newest=True)]
        return [event.actions.rewind_before_invocation_id for event in events] == [message.invocation_id]

    async def _rewind_to(self, log: SessionLog, row: TurnRow) -> None:
        overwritten = scopes.take_back(await self._reader.undos(log.key, row.first_seq))
        removed = tuple(key for key, value in overwritten.items() if not value)
        restored = {key: value[0] for key, value in overwritten.items() if value}
        actions = EventActions(rewind_before_invocation_id=row.invocation_id, state_delta={**restored, **dict.fromkeys(removed)})
        event = Event(id=new_event_id(), invocation_id=new_invocation_id(), author=USER, timestamp=now_s(), actions=actions)
        writes: list[Write] = [PutState(log.key, {}, removed), HideEvents(log.key, row.first_seq, log.head_seq)]
        await self._writer.add(log, [new_event(event)], writes)
        # Rewinds are rare enough to load the log again.
        log.mark_stale()
        await self._logs.load(log.key)
