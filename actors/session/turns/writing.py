"""Writing to the turn that is open: events, which are stored, partials, which are only delivered, and its end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from actors.errors import FencedError, SessionBusyError, StoreError, StoreUnavailableError
from actors.interfaces.stores import TurnRow, Write
from actors.messages import protocol as p
from actors.messages.content import Content, FunctionResponse, Part
from actors.messages.event import USER, Event, new_event_id, now_s
from actors.rules.partials import AnswerId
from actors.session.log.event_scan import new_event, scan
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.log.writer import Events
from actors.session.service import SessionParts
from actors.session.turns.lookup import TurnLookup, missing_notes

logger = logging.getLogger(__name__)


class TurnEnder:
    """Answers CloseTurn and CancelTurn, and ends turns whose last event is stored, or is lost."""

    def __init__(self, parts: SessionParts, lookup: TurnLookup) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._reader = parts.reader
        self._writer = parts.writer
        self._subscriptions = parts.subscriptions
        self._lookup = lookup

    async def end_turn(
        self,
        log: SessionLog,
        turn: SessionTurn,
        agent: str,
        outcome: p.AnyOutcome,
        events: Events = (),
        writes: Sequence[Write] = (),
    ) -> None:
        """Store how a turn ended, together with its last events and `writes`; then the next turn may begin.

        Subscribers get the end in the same step as the last event, so that both travel together.

        Args:
            agent: the agent that was selected for the turn.

        Raises:
            StoreError: nothing is stored, and the turn is still open.
        """
        turn.begin_end()
        try:
            await self._writer.add(
                log,
                events,
                [*writes, *self._parts.ending(log, turn, outcome, events)],
                then=lambda: self._end_in_memory(log, turn, agent, outcome),
                end=lambda: turn.ended(agent, outcome),
            )
        finally:
            turn.end_over()

    def _end_in_memory(self, log: SessionLog, turn: SessionTurn, agent: str, outcome: p.AnyOutcome) -> None:
        """Count the end, tell the subscribers, and let the next turn begin, unless that was done before."""
        if log.turn is not turn:
            return
        self._parts.tallies.note_turn(agent, outcome, now_s() - turn.opened_s, turn.row.version)
        self._subscriptions.publish_end(log.key, turn.row.invocation_id, outcome, turn.row.opened_seq)
        self._subscriptions.forget_answers(log.key)
        log.turn = None
        self._parts.ended(log.key)
        log.queue.start_next()

    def end_as_stored(self, log: SessionLog, row: TurnRow) -> None:
        """End the open turn in memory, if its record has: the store has taken its end, and could not say so."""
        turn = log.turn
        is_over = turn is not None and row.status != "running" and row.epoch == turn.row.epoch
        if turn is not None and is_over and not log.unwritten:
            self._end_in_memory(log, turn, row.agent, p.decode_outcome(row.outcome))

    async def close_turn(self, message: p.CloseTurn) -> p.Ack:
        """End a turn in any case: what cannot be stored now is stored when the store is back.

        Raises:
            FencedError: the turn has ended, or was given to another Runner.
            StoreError: the end is not stored yet.
        """
        key, invocation_id = message.turn.key, message.turn.invocation_id
        await self._lookup.settled(key, invocation_id)
        # Sent again. The Runner keeps the end, too, until it is on disk.
        self._refuse_unstored(message.turn)
        try:
            log, turn = await self._lookup.current(message.turn)
        except StoreError:
            if self._logs.in_memory(key) is None:
                # Whether the turn is open only the store can tell.
                raise
            log, turn = self._lookup.current_in_memory(message.turn)
        try:
            if isinstance(message.outcome, p.Cancelled):
                # From here on the turn takes no event: a call would be answered twice, by its agent after this.
                turn.begin_end()
                try:
                    await self._writer.add(log, _responses_to_open_calls(turn))
                finally:
                    turn.end_over()
        except StoreError as error:
            # The turn has to end all the same, or the session would be busy for ever.
            logger.error("turn %s ends without responses to its open calls: %s", invocation_id, error)
            with suppress(StoreError):
                log, turn = await self._lookup.current(message.turn)
        try:
            await self.end_turn(log, turn, message.agent, message.outcome)
        except BaseException as error:
            if isinstance(error, StoreError):
                also = self._parts.ending(log, turn, message.outcome)
                self._parts.store_end_later(log, turn.ended(message.agent, message.outcome), also)
            self._end_in_memory(log, turn, message.agent, message.outcome)
            raise
        return p.Ack()

    def _refuse_unstored(self, turn: p.TurnRef) -> None:
        if self._parts.access.pending_ends.has(turn.key, turn.invocation_id, turn.epoch):
            raise StoreUnavailableError("the session store", "the end of the turn is still to be stored")

    async def cancel_turn(self, message: p.CancelTurn) -> p.Ack | p.AlreadyRunning | p.NotLeader:
        """Remove a turn from the queue, or seal one that is open without a Runner, or one that is paused.

        A turn is without a Runner if the one that lives knows nothing of it: it was another one's, which was lost, or was opened
        for a request that is over.

        Raises:
            SessionBusyError: it is paused, and another turn runs; if its answer waits in the queue, that stays there.
            StoreError: it could not be sealed.
        """
        refusal = self._parts.runners.refusal(message.runner)
        if refusal is not None:
            return refusal
        log = await self._logs.find(message.key)
        if log is None:
            return p.Ack()
        invocation_id = message.invocation_id
        await self._lookup.settled(message.key, invocation_id)
        if log.turn is not None and log.open_row(invocation_id) is not None:
            log.queue.cancel(invocation_id)
            if message.begins and log.turn.runner == message.runner:
                return p.AlreadyRunning()
            row = log.turn.row
            turn = p.TurnRef(message.key, invocation_id, row.epoch, generation=log.generation)
            try:
                await self.close_turn(p.CloseTurn(turn=turn, agent=row.agent, outcome=p.Cancelled()))
            except FencedError:
                # Another request has ended it meanwhile, or a Runner has taken it over.
                self._refuse_unstored(turn)
                return await self.cancel_turn(message)
        elif log.queue.has_new(invocation_id):
            log.queue.cancel(invocation_id)
            self._subscriptions.publish_end(message.key, invocation_id, p.Cancelled())
        else:
            async with self._parts.changes.locked(log.key):
                await self._cancel_stored(log, invocation_id)
        return p.Ack()

    async def _cancel_stored(self, log: SessionLog, invocation_id: str) -> None:
        """Seal a turn that waits for function responses. Any other stays as it is, and gets none that waits in the queue.

        Raises SessionBusyError, StoreError.
        """
        row = await self._reader.turn(log.key, invocation_id)
        if row is None or row.status != "paused":
            if log.queue.cancel(invocation_id):
                outcome = p.decode_outcome(row.outcome) if row is not None and row.outcome else p.Cancelled()
                self._subscriptions.publish_end(log.key, invocation_id, outcome)
            return
        log = await self._logs.load(log.key)
        if log.queue.is_taken:
            if log.open_id() not in ("", invocation_id):
                raise SessionBusyError(log.key.session, log.open_id())
            # A response has just come and the turn is beginning again: the Runner that cancels it will find it running.
            return
        log.queue.is_taken = True
        try:
            turn = self._reader.turn_of(row)
            await self._reader.recall(log.key, turn)
            turn.go_on(log.head_seq)
            events = _responses_to_open_calls(turn)

            def ended() -> TurnRow:
                # The turn is not open, so the log does not note them in it. Its record ends with them: so does a fork.
                for seq, (_, event) in enumerate(events, log.head_seq - len(events) + 1):
                    turn.fold(event, seq)
                return turn.ended(row.agent, p.Cancelled())

            also = self._parts.ending(log, turn, p.Cancelled(), events)
            await self._writer.add(log, events, also, end=ended)
            self._parts.ended(log.key)
        finally:
            log.queue.start_next()


def _responses_to_open_calls(turn: SessionTurn) -> Events:
    """Responses to the calls that a cancelled turn leaves open, so that no model ever sees a call without one."""
    by_author: dict[tuple[str, str | None], list[Part]] = {}
    for call_id, call in turn.calls.open.items():
        if call.has_response:
            continue
        response = FunctionResponse(id=call_id, name=call.name, response={"error": "cancelled"})
        by_author.setdefault((call.author, call.branch), []).append(Part(function_response=response))
    return [
        new_event(
            Event(
                id=new_event_id(),
                invocation_id=turn.row.invocation_id,
                author=author,
                branch=branch,
                timestamp=now_s(),
                content=Content(role=USER, parts=parts),
            )
        )
        for (author, branch), parts in by_author.items()
    ]


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
        events: Events = [(raw, scan(raw)) for raw in message.events]
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
