"""Messages that wait for a turn, as a service of the Session actor.

Rules of this file:

- A message that waits is a schedule that is due at once, under the id of the turn that it begins if no agent reads it. So what
  begins turns of schedules begins that one, whatever is lost.
- It is read in one transaction: its event is appended to the turn that runs, and the schedule is removed. So it is in the log
  once, in the turn that reads it or in one of its own.
- Its event names the agent that has read it. What the agents store after it they have said in its knowledge, or side by side.
"""

from __future__ import annotations

import msgspec

from actors.actor import Handlers
from actors.errors import OverloadedError, RequestError
from actors.interfaces.records import Write
from actors.layers.schedules.due_times import DueTimes
from actors.layers.steering.messages import FindMessage, LeaveMessage, MessageLeft, MessagePlace
from actors.layers.stores.records import AddSchedule, RemoveSchedule
from actors.layers.stores.schedule import SchedulePlan, ScheduleRow, Timing, WaitingMessage, message_name, message_prefix
from actors.layers.stores.session_store import store_of
from actors.messages import protocol as p
from actors.messages.codec import decode_event, encode
from actors.messages.content import Content
from actors.messages.event import READ_BY
from actors.messages.json_types import JsonObject
from actors.messages.limits import MIB
from actors.messages.session import SessionKey
from actors.refs.keyed_locks import KeyedLocks
from actors.rules.checks.state import only_temp
from actors.session.log.event_scan import EventScan, new_event, scan
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionService
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.parts import SessionParts

MOST_MESSAGES, MOST_BYTES = 100, 16 * MIB
"""Messages of one session that may wait, and their bytes: they are read together, and travel in one reply when they are due.
One may wait whatever its size."""


class Steering(SessionService):
    """Answers LeaveMessage, ReadMessages and FindMessage.

    Args:
        parts: of the Session actor.
        due: has Runners begin the turns of messages that no agent reads.
    """

    def __init__(self, parts: SessionParts, due: DueTimes) -> None:
        self._parts = parts
        self._due = due
        self._lookup = TurnLookup(parts)
        self._in_order: KeyedLocks[SessionKey] = KeyedLocks()

    def handlers(self) -> Handlers:
        """Its messages."""
        return {LeaveMessage: self.leave_message, p.ReadMessages: self.read_messages, FindMessage: self.find_message}

    async def leave_message(self, message: LeaveMessage) -> MessageLeft:
        """Store a message for the turn that runs.

        Raises:
            OverloadedError: as many messages of the session wait as may.
            RequestError: it could not be appended.
            StoreError: it could not be stored.
        """
        key, event = message.key, scan(message.event)
        log = await self._parts.logs.find(key)
        if log is None or not _takes(log, event):
            return MessageLeft()
        if message.waits:
            return _left(log)
        self._parts.admission.event(log, message.event, event)
        # Each finds those before it, so that no more wait than may.
        async with self._in_order.locked(key):
            return await self._left(log, message, event)

    async def _left(self, log: SessionLog, message: LeaveMessage, event: EventScan) -> MessageLeft:
        key = message.key
        waiting = await self._waiting(key)
        is_known = any(row.id == event.invocation_id for row in waiting)
        if not is_known and await self._parts.reader.position(key, event.id) is not None:
            # Sent again: it was read, or has begun its turn.
            return MessageLeft()
        if not is_known:
            size = sum(len(row.raw) for row in waiting)
            if len(waiting) >= MOST_MESSAGES or (waiting and size + len(message.event) > MOST_BYTES):
                held = f"{len(waiting)} messages with {size} bytes"
                raise OverloadedError(f"session {key.session!r}", held, "a turn that runs", 1.0)
            row = self._row(message, event)
            try:
                await self._due.write(key, AddSchedule(key, row))
            finally:
                # A store that says that it has failed may have it all the same.
                self._due.note_due(row.due_s)
        return _left(log) if _takes(log, event) else MessageLeft()

    def _row(self, message: LeaveMessage, event: EventScan) -> ScheduleRow:
        waiting = WaitingMessage(
            event=message.event,
            state_delta=message.state_delta,
            fingerprint=message.fingerprint,
            traceparent=message.traceparent,
        )
        due_s = int(self._due.now_s())
        timing = Timing(at_s=due_s, start_s=due_s)
        plan = SchedulePlan(timing=timing, missed="all", content=Content(), config=message.config, message=waiting)
        return ScheduleRow(
            key=message.key,
            name=message_name(message.key, event.timestamp, event.invocation_id),
            id=event.invocation_id,
            due_s=due_s,
            raw=encode(plan),
        )

    async def read_messages(self, message: p.ReadMessages) -> p.MessagesRead:
        """Append the messages that wait to the log of the turn that runs.

        Raises:
            FencedError: the turn has ended or was taken over, or the run was abandoned.
            StoreError: nothing was read.
        """
        log, turn = await self._lookup.current(message.turn)
        rows = await self._waiting(log.key)
        log, turn = await self._lookup.current(message.turn)
        events: list[tuple[bytes, EventScan]] = []
        writes: list[Write] = []
        temp: JsonObject = {}
        is_under_way = False
        for row in rows:
            waiting = row.plan.message
            if waiting is None or not waiting.event:
                # It begins a turn of its own in any case.
                continue
            event = decode_event(waiting.event, 0)
            if event.id in turn.stored:
                # Another run has just read it.
                is_under_way = True
                continue
            metadata = {**(event.custom_metadata or {}), READ_BY: message.agent}
            raw, scanned = new_event(
                msgspec.structs.replace(event, invocation_id=turn.row.invocation_id, custom_metadata=metadata)
            )
            try:
                self._parts.admission.event(log, raw, scanned)
                given = {**temp, **only_temp(waiting.state_delta)}
                self._parts.admission.temp(turn.temp, given)
            except RequestError:
                # A state has grown since: it begins a turn, which says so.
                continue
            temp = given
            events.append((raw, scanned))
            writes.append(RemoveSchedule(row.key, row.name, row.id))
        if temp:
            turn.temp.update(temp)
            log.state_seq = log.head_seq + len(events)
            writes.append(log.put_turn(turn.record()))
        if events:
            await self._parts.writer.add(log, events, writes)
            read = {event.id for _, event in events}
            log.queue.send_back(lambda waiter: waiter.event_id in read)
        elif is_under_way:
            await self._parts.access.commits.flush()
        return p.MessagesRead(contents=[decode_event(raw, 0).content or Content() for raw, _ in events])

    async def find_message(self, message: FindMessage) -> MessagePlace:
        """Tell which turn has a message, or whether it waits. Raises StoreError."""
        key, reader = message.key, self._parts.reader
        waits = any(row.id == message.invocation_id for row in await self._waiting(key))
        position = await reader.position(key, message.event_id)
        if position is None:
            log = await self._parts.logs.find(key)
            is_in_line = log is not None and log.queue.has(message.invocation_id)
            return MessagePlace(waits=waits, is_in_line=is_in_line)
        seq, invocation_id = position
        stored = await reader.event(key, seq)
        metadata = (decode_event(stored.raw, seq).custom_metadata if stored is not None else None) or {}
        return MessagePlace(invocation_id=invocation_id, seq=seq, agent=str(metadata.get(READ_BY, "")))

    async def _waiting(self, key: SessionKey) -> list[ScheduleRow]:
        """The messages of a session that wait, the oldest first. Raises StoreError."""
        prefix = message_prefix(key)

        def read() -> list[ScheduleRow]:
            rows = store_of(self._parts.access).schedules(key.app, key.user, limit=MOST_MESSAGES, after=(key.user, prefix))
            return [row for row in rows if row.name.startswith(prefix)]

        return await self._parts.access.read(read)


def _takes(log: SessionLog, event: EventScan) -> bool:
    """True while a turn runs that can read the message."""
    turn = log.turn
    return turn is not None and not turn.is_ending and event.id not in turn.stored


def _left(log: SessionLog) -> MessageLeft:
    return MessageLeft(invocation_id=log.open_id(), after_seq=log.committed_seq)
