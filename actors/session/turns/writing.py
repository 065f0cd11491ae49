"""Writing to the turn that is open: events, which are stored, and partials, which are only delivered."""

from __future__ import annotations

from actors.errors import FencedError
from actors.interfaces.records import Write
from actors.messages import protocol as p
from actors.rules.delivery.answers import AnswerId
from actors.session.log.event_scan import scan
from actors.session.log.reserved_calls import settle
from actors.session.turns.ending import TurnEnder
from actors.session.turns.lookup import TurnLookup, missing_notes
from actors.session.turns.parts import SessionParts
from actors.session.turns.recorded_calls import RecordedCalls


class TurnWriter:
    """Answers Append and TellPartial.

    Args:
    """

    def __init__(
        self,
        parts: SessionParts,
        lookup: TurnLookup,
        ender: TurnEnder,
        recorded: RecordedCalls,
    ) -> None:
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
        self._recorded = recorded

    async def append(self, message: p.Append) -> p.Appended:
        """Store events of the open turn; with `outcome` the turn ends with them. Events that are sent again are stored once.

        The notes that come with them are stored in the same step before them, if the log lacks them, and records of model calls
        beside them.

        Raises:
            FencedError: the turn is not open, or was given to another Runner, or the run was abandoned.
            RequestError: an event or a state cannot be admitted. Nothing is stored.
            StoreError: nothing is stored.
        """
        events = [(raw, scan(raw)) for raw in message.events]
        try:
            log, turn = self._lookup.at_hand(message.turn) or await self._lookup.current(message.turn)
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
        notes = missing_notes(turn, message.notes) if message.notes else []
        writes: list[Write] = []
        # The run does one thing at a time: its model call is over, and what that has used is in the event, if in any.
        is_unknown = settle(turn, message.turn.run, events)
        state_seq = log.state_seq
        events = [*notes, *events] if notes else events
        for raw, event in events:
            self._admission.event(log, raw, event)
        for call in message.failed_calls:
            self._tallies.note_model_call(call.agent, call.model, call.error, call.took_s)
        if message.calls:
            writes += self._recorded.writes(log, message, events)
        self._recorded.delete_old_soon(log.key.app)
        if message.temp:
            self._admission.temp(turn.temp, message.temp)
            turn.temp.update(message.temp)
            log.state_seq = log.head_seq + len(events)
        if message.temp or is_unknown:
            writes.append(log.put_turn(turn.record()))
        if message.outcome is None:
            first_seq = await self._writer.add(log, events, writes)
        else:
            first_seq = await self._ender.end_turn(log, turn, message.selected, message.outcome, events, writes)
        return p.Appended(first_seq=first_seq + len(notes), state_seq=state_seq)

    async def tell_partial(self, message: p.TellPartial) -> p.Ack | p.TellAgain:
        """Deliver partials to the turn's subscribers. Raises FencedError, StoreError."""
        log, turn = await self._lookup.current(message.turn)
        if log.is_opening:
            # Its subscribers hear of no turn that is not stored.
            await self._logs.opened(log)
            if log.turn is not turn or not turn.is_written_by(message.turn):
                raise FencedError(message.turn.invocation_id, message.turn.epoch)
        partials = [p.StoredEvent(0, raw) for raw in message.events]
        answer = AnswerId(message.turn.epoch, message.turn.run, message.answer)
        # Drivers may have the beginning of an attempt that was lost together with the Session actor before.
        again = message.again or (turn.is_recalled and message.first == 0)
        told = self._subscriptions.answers(message.turn.key).tell(answer, message.first, partials, again=again)
        if told.lacks_beginning:
            return p.TellAgain()
        self._counts["partials"] += len(told.new)
        if told.begins_again:
            self._subscriptions.publish_answers(message.turn.key, message.turn.invocation_id)
        else:
            self._subscriptions.publish(message.turn.key, message.turn.invocation_id, told.new)
        return p.Ack()
