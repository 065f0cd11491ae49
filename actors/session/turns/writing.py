"""Writing to the turn that is open: events, which are stored, and partials, which are only delivered."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import FencedError
from actors.interfaces.records import Write
from actors.messages import protocol as p
from actors.rules.delivery.answers import AnswerId
from actors.session.log.event_scan import scan
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.log.writer import Events
from actors.session.turns.ending import TurnEnder
from actors.session.turns.lookup import TurnLookup, missing_notes
from actors.session.turns.parts import SessionParts


class TurnWriter:
    """Answers Append and TellPartial."""

    def __init__(self, parts: SessionParts, lookup: TurnLookup, ender: TurnEnder) -> None:
        self._access = parts.access
        self._logs = parts.logs
        self._reader = parts.reader
        self._writer = parts.writer
        self._subscriptions = parts.subscriptions
        self._admission = parts.admission
        self._counts = parts.counts
        self._tallies = parts.tallies
        self._lookup = lookup
        self._ender = ender
        self._append_hooks = parts.append_hooks

    async def append(self, message: p.Append) -> p.Appended:
        """Store events of the open turn; with `outcome` the turn ends with them. Events that are sent again are stored once.

        The notes that come with them are stored in the same step before them, if the log lacks them.

        Raises:
            FencedError: the turn is not open, or was given to another Runner, or the run was abandoned.
            RequestError: an event or a state cannot be admitted. Nothing is stored.
            StoreError: nothing is stored.
        """
        events = _scanned(message)
        try:
            log, turn = await self._lookup.current(message.turn)
            if events and events[0][1].id in turn.stored:
                # Sent again. The first request may still be on its way to the disk, and may not arrive there.
                await self._access.commits.flush()
                log, turn = await self._lookup.current(message.turn)
                if events[0][1].id in turn.stored:
                    return p.Appended(first_seq=turn.stored[events[0][1].id])
        except FencedError:
            # The turn may have ended with these very events, and only the reply was lost.
            position = await self._reader.position(message.turn.key, events[0][1].id) if message.outcome is not None else None
            if position is None:
                raise
            return p.Appended(first_seq=position[0])
        events, writes, appended = self._admitted(log, turn, message, events)
        if message.outcome is None:
            await self._writer.add(log, events, writes)
        else:
            await self._ender.end_turn(log, turn, message.selected, message.outcome, events, writes)
        return appended

    def _admitted(
        self, log: SessionLog, turn: SessionTurn, message: p.Append, events: Events
    ) -> tuple[Events, Sequence[Write], p.Appended]:
        """Check what is to be stored. Returns the events, with the notes before them, what is stored beside, and the reply.

        Raises RequestError, FencedError.
        """
        notes = missing_notes(turn, message.notes) if message.notes else []
        state_seq = log.state_seq
        if notes:
            events = [*notes, *events]
        writes: list[Write] = []
        for hook in self._append_hooks:
            writes += hook(log, message, events)
        for raw, event in events:
            self._admission.event(log, raw, event)
        for call in message.failed_calls:
            self._tallies.note_model_call(call.agent, call.model, call.error, call.took_s)
        if message.temp:
            self._admission.temp(turn.temp, message.temp)
            turn.temp.update(message.temp)
            log.state_seq = log.head_seq + len(events)
            writes.append(log.put_turn(turn.record()))
        return events, writes, p.Appended(first_seq=log.head_seq + 1 + len(notes), state_seq=state_seq)

    async def tell_partial(self, message: p.TellPartial) -> p.Ack | p.TellAgain:
        """Deliver partials to the turn's subscribers. Raises FencedError, StoreError."""
        _, turn = await self._lookup.current(message.turn)
        return self._told(turn, message)

    def _told(self, turn: SessionTurn, message: p.TellPartial) -> p.Ack | p.TellAgain:
        partials = [p.StoredEvent(0, raw) for raw in message.events]
        answer = AnswerId(message.turn.epoch, message.turn.run, message.answer)
        # Drivers may have the beginning of an attempt that was lost together with the Session actor before.
        again = message.again or (turn.is_recalled and message.first == 0)
        told = self._subscriptions.answers(message.turn.key, message.turn.invocation_id).tell(
            answer, message.first, partials, again=again
        )
        if told.lacks_beginning:
            return p.TellAgain()
        self._counts["partials"] += len(told.new)
        if told.begins_again:
            self._subscriptions.publish_answers(message.turn.key, message.turn.invocation_id)
        else:
            self._subscriptions.publish(message.turn.key, message.turn.invocation_id, told.new)
        return p.Ack()


def _scanned(message: p.Append) -> Events:
    return [(raw, scan(raw)) for raw in message.events]
