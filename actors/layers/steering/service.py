"""Messages that wait for a turn, or for an agent, as a service of the Session actor.

Rules of this file:

- A message that waits is a schedule that is due at once, under the id of the turn that it begins if no agent reads it. So what
  begins turns of schedules begins that one, whatever is lost.
- It is read in one transaction: its event is appended to the turn that runs, and the schedule is removed. So it is in the log
  once, in the turn that reads it or in one of its own.
- Its event names the agent that has read it. What the agents store after it they have said in its knowledge, or side by side.
- What an agent sends to another waits in the same way, under the name of that one, which alone reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from actors.actor import Handlers, KeyedLocks
from actors.errors import ActorLostError, OverloadedError, RequestError, SessionBusyError
from actors.interfaces.stores import Write
from actors.interfaces.transport import Link
from actors.layers.schedules.due_times import DueTimes
from actors.layers.steering.messages import FindMessage, FindReader, MessagePlace, MessageReader
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import AddSchedule, RemoveSchedule
from actors.layers.stores.schedule import ScheduleRow, WaitingMessage, message_name, message_prefix, waiting_row
from actors.messages import protocol as p
from actors.messages.config import MIB, RunConfig
from actors.messages.content import Content, Part
from actors.messages.event import READ_BY, SENDER, USER, Event, decode_event, words_id
from actors.messages.json_types import JsonObject
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey, TurnKey
from actors.refs import AgentRef
from actors.rules.checks.state import only_temp
from actors.rules.routing.branches import tool_root
from actors.runner.recovery import OPENING_S
from actors.runner.running_turn import Run, RunningTurn, numbers
from actors.runner.service import RunnerParts, RunnerService
from actors.session.log.event_scan import EventScan, new_event
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts, SessionService
from actors.session.turns.lookup import TurnLookup, missing_notes

MOST_MESSAGES, MOST_BYTES = 100, 16 * MIB
"""Messages of one session that may wait, and their bytes: they are read together, and travel in one reply when they are due.
One may wait whatever its size."""

AHEAD = 8
"""So many more messages than are wanted are looked at: some may be changes of the state, or begin turns of their own."""

MOST_SENT = 1_000
"""Messages of agents to one agent that may wait."""


class _Sent(msgspec.Struct, eq=False):
    """Messages of agents to one agent: each send would read all that wait.

    Attributes:
        generation: of the log.
        ids: those that waited when they were read, and those sent since.
        room: so many more may wait, at least.
    """

    generation: str
    ids: set[str]
    room: int


class Steering(SessionService):
    """Stores messages for the turn that runs, and answers ReadMessages, SendMessage, FindMessage and FindReader.

    Args:
        due: has Runners begin the turns of messages that no agent reads.
    """

    def __init__(self, parts: SessionParts, due: DueTimes) -> None:
        self._parts = parts
        self._store = store_of(parts.access)
        self._due = due
        self._lookup = TurnLookup(parts)
        self._in_order: KeyedLocks[tuple[SessionKey, str]] = KeyedLocks()
        self._last_s = 0.0
        self._sent: dict[tuple[SessionKey, str], _Sent] = {}
        parts.removal_hooks.append(self._left_behind)
        parts.due_refusals.append(self.refusal)
        parts.leaving_hooks.append(self.leave)

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            p.ReadMessages: self.read_messages,
            p.SendMessage: self.send_message,
            FindMessage: self.find_message,
            FindReader: self.find_reader,
        }

    async def refusal(self, message: p.OpenTurn, time: ScheduledTime) -> SessionBusyError | None:
        """A message of an agent begins no turn before those that were sent to its receiver before. Raises StoreError."""
        key = message.key
        if not time.is_sent:
            return None
        [first, *_] = [*await self._named(key, [f"{time.name.rsplit('/', 2)[0]}/"], 1), None]
        is_behind = first is not None and first.due_s is not None and first.name < time.name
        return SessionBusyError(key.session, first.id) if first is not None and is_behind else None

    async def leave(self, log: SessionLog, message: p.OpenTurn, event: EventScan) -> p.MessageLeft | None:
        """Store a message for the turn that runs, or that earlier messages are about to begin. See `LeavingHook`.

        Raises:
            OverloadedError: as many messages of the session wait as may.
            RequestError: it could not be appended.
            StoreError: it could not be stored.
        """
        self._parts.admission.event(log, message.event, event)
        # Each finds those before it, so that no more wait than may.
        async with self._in_order.locked((message.key, "")):
            return await self._left(log, message, event)

    async def _left(self, log: SessionLog, message: p.OpenTurn, event: EventScan) -> p.MessageLeft | None:
        key = message.key
        # Ends of background runs that begin no turn may wait for long.
        waiting = [row for row in await self._waiting(key) if row.due_s is not None]
        name = message_name(key, event.timestamp, event.invocation_id)
        before = [row.id for row in waiting if row.name < name]
        if log.turn is None and not before:
            return None
        is_known = any(row.id == event.invocation_id for row in waiting)
        if not is_known and await self._parts.reader.position(key, event.id) is not None:
            # Sent again: it was read, or has begun its turn.
            return _left_for_reader(log, event)
        if not is_known:
            size = sum(len(row.raw) for row in waiting)
            if len(waiting) >= MOST_MESSAGES or (waiting and size + len(message.event) > MOST_BYTES):
                held = f"{len(waiting)} messages with {size} bytes"
                raise OverloadedError(f"session {key.session!r}", held, "a turn that runs", 1.0)
            leaving = WaitingMessage(
                event=message.event,
                state_delta=message.state_delta,
                fingerprint=message.fingerprint,
                traceparent=message.traceparent,
            )
            await self._add(key, name, event.invocation_id, leaving, message.config)
        # Without a reader, an agent has read it meanwhile, or it is about to begin its own turn.
        reader = log.open_id() if log.takes(event.id) else next(iter(before), "")
        return p.MessageLeft(invocation_id=reader, after_seq=log.committed_seq) if reader else _left_for_reader(log, event)

    async def _add(self, key: SessionKey, name: str, invocation_id: str, message: WaitingMessage, config: RunConfig) -> None:
        row = waiting_row(key, name, invocation_id, message, config, at_s=int(self._due.now_s()))
        await self._due.write(key, [AddSchedule(key, row)])

    async def send_message(self, message: p.SendMessage) -> p.Ack:
        """Store a message of an agent for another.

        Raises:
            UnknownAgentError: there is no such agent.
            OverloadedError: as many wait for it as may.
            FencedError: the turn has ended or was taken over, or the run was abandoned.
            RequestError: it could not be appended.
            StoreError: it could not be stored.
        """
        log, turn = await self._lookup.current(message.turn)
        key, to, config = log.key, message.agent, turn.config
        is_llm = self._parts.versions.topology(turn.row.version)[to].is_llm
        async with self._in_order.locked((key, to)):
            sent = await self._sent_to(log, to)
            if message.id in sent.ids or await self._parts.reader.position(key, words_id(message.id)) is not None:
                return p.Ack()
            if not sent.room:
                raise OverloadedError(f"agent {to!r} in session {key.session!r}", f"{MOST_SENT} messages", "one agent", 1.0)
            log, _ = await self._lookup.current(message.turn)
            # Behind those before it, also when the clock was set back.
            # Floats tell two microseconds apart.
            self._last_s = sent_s = max(self._due.now_s(), self._last_s + 2e-6)
            metadata = {SENDER: message.sender}
            raw, scanned = new_event(
                Event(
                    id=words_id(message.id),
                    invocation_id=message.id,
                    author=USER,
                    timestamp=sent_s,
                    content=_introduced(message) if is_llm else message.content,
                    custom_metadata=metadata,
                )
            )
            self._parts.admission.event(log, raw, scanned)
            config = msgspec.structs.replace(config, agent=to, on_concurrent_turn="steer", custom_metadata=metadata)
            name, waiting = message_name(key, sent_s, message.id, to=to), WaitingMessage(event=raw)
            # Where the store fails, only the store knows.
            self._sent.pop((key, to), None)
            await self._add(key, name, message.id, waiting, config)
            sent.ids.add(message.id)
            sent.room -= 1
            self._sent[key, to] = sent
        return p.Ack()

    async def _sent_to(self, log: SessionLog, to: str) -> _Sent:
        """The messages sent to an agent; read from the store if they are not known, or as many may wait. Raises StoreError."""
        sent = self._sent.get((log.key, to))
        if sent is None or not sent.room or sent.generation != log.generation:
            for other in [each for each in self._sent if self._parts.logs.in_memory(each[0]) is None]:
                del self._sent[other]
            ids = {row.id for row in await self._waiting(log.key, to, most=MOST_SENT)}
            sent = self._sent[log.key, to] = _Sent(log.generation, ids, MOST_SENT - len(ids))
        return sent

    async def read_messages(self, message: p.ReadMessages) -> p.MessagesRead:
        """Append the messages that wait to the log of the turn that runs.

        Raises:
            FencedError: the turn has ended or was taken over, or the run was abandoned.
            StoreError: nothing was read.
        """
        log, turn = await self._lookup.current(message.turn)
        at_once = message.most + AHEAD if message.most else MOST_MESSAGES
        rows = await self._waiting(log.key, "", message.agent, most=at_once)
        # Later than that: what a request under way has read is here or there.
        unheard = await self._unheard(log.key, turn.row.opened_seq, message) if message.again else []
        log, turn = await self._lookup.current(message.turn)
        events: list[tuple[bytes, EventScan]] = []
        writes: list[Write] = []
        temp: JsonObject = {}
        is_under_way, given, more = False, len(unheard), len(rows) == at_once
        for row in rows:
            if message.most and given >= message.most:
                more = True
                break
            waiting = row.plan.message
            if waiting is None or not waiting.event:
                # It begins a turn of its own in any case.
                continue
            event = decode_event(waiting.event, 0)
            if turn.stored.get(event.id) == turn.row.opened_seq:
                # It has begun this turn, and its time is about to pass.
                continue
            if event.id in turn.stored:
                # Another run has just read it, or a request of this one whose reply was lost.
                is_under_way = True
                if message.again:
                    await self._parts.access.commits.flush()
                    return await self.read_messages(message)
                continue
            metadata = {**(event.custom_metadata or {}), READ_BY: message.agent}
            branch = message.branch if SENDER in metadata else None
            raw, scanned = new_event(
                msgspec.structs.replace(event, invocation_id=turn.row.invocation_id, branch=branch, custom_metadata=metadata)
            )
            try:
                self._parts.admission.event(log, raw, scanned)
                all_temp = {**temp, **only_temp(waiting.state_delta)}
                self._parts.admission.temp(turn.temp, all_temp)
            except RequestError:
                # A state has grown since: it begins a turn, which says so.
                continue
            temp = all_temp
            given += event.content is not None
            events.append((raw, scanned))
            writes.append(RemoveSchedule(row.key, row.name, row.id))
        # What a run has read stands behind the note that it begins.
        stored = [*missing_notes(turn, message.notes), *events] if events else []
        if temp:
            turn.temp.update(temp)
            log.state_seq = log.head_seq + len(stored)
            writes.append(log.put_turn(turn.record()))
        if events:
            await self._parts.writer.add(log, stored, writes)
            read = {event.id for _, event in events}
            log.queue.send_back(lambda waiter: waiter.event_id in read)
        elif is_under_way:
            await self._parts.access.commits.flush()
            # Unless it could not be stored: it is read now.
            return await self.read_messages(message)
        read_now = [decode_event(raw, turn.stored[event.id]) for raw, event in events]
        messages = [*unheard, *read_now]
        return p.MessagesRead(
            # A change of the state is no message.
            messages=[event.received() for event in messages if event.content is not None],
            more=bool(messages or events) and more,
            last_seq=messages[-1].seq if messages else 0,
        )

    async def _unheard(self, key: SessionKey, opened_seq: int, message: p.ReadMessages) -> list[Event]:
        """The messages that a run has read, and that its agent may not have got. Raises StoreError."""
        after_seq = max(opened_seq, message.after_seq)
        events = [decode_event(each.raw, each.seq) for each in await self._parts.reader.events(key, after_seq=after_seq)]
        own = [
            each for each in events if each.invocation_id == message.turn.invocation_id and each.branch in (None, message.branch)
        ]
        # What it has stored since shows that it got them.
        said_seq = max((each.seq for each in own if each.author == message.agent), default=0)
        return [each for each in own if each.seq > said_seq and each.reader() == message.agent]

    async def find_message(self, message: FindMessage) -> MessagePlace:
        """Tell which turn has a message, or whether it waits. Raises StoreError."""
        key, reader = message.key, self._parts.reader
        # Behind ends of background runs, which are not counted.
        waits = any(row.id == message.invocation_id for row in await self._waiting(key, most=MOST_SENT))
        position = await reader.position(key, message.event_id)
        if position is None:
            log = await self._parts.logs.find(key)
            is_in_line = log is not None and log.queue.has(message.invocation_id)
            return MessagePlace(waits=waits, is_in_line=is_in_line)
        seq, invocation_id = position
        stored = await reader.event(key, seq)
        metadata = (decode_event(stored.raw, seq).custom_metadata if stored is not None else None) or {}
        return MessagePlace(invocation_id=invocation_id, seq=seq, agent=str(metadata.get(READ_BY, "")))

    async def find_reader(self, message: FindReader) -> MessageReader:
        """Tell which turn may read a message. Raises StoreError."""
        log = await self._parts.logs.find(message.key)
        return MessageReader(invocation_id=log.open_id() if log is not None and log.takes(message.event_id) else "")

    async def _waiting(self, key: SessionKey, *to: str, most: int = MOST_MESSAGES) -> list[ScheduleRow]:
        """The messages of a session that wait, the oldest first. Raises StoreError.

        Args:
            to: those to these agents; "" stands for those of the user, and is the default.
            most: so many at most.
        """
        rows = await self._named(key, [message_prefix(key, each) for each in to or ("",)], most)
        return sorted(rows, key=lambda row: row.name.partition("/")[2])[:most]

    async def _named(self, key: SessionKey, prefixes: Sequence[str], most: int | None) -> list[ScheduleRow]:

        def read() -> list[ScheduleRow]:
            return [row for prefix in prefixes for row in self._store.schedules_with(key.app, key.user, prefix, limit=most)]

        return await self._parts.access.read(read)

    async def _left_behind(self, key: SessionKey) -> list[Write]:
        """The writes that remove all that waits in a session, which is removed. Raises StoreError."""
        rows = await self._named(key, [message_prefix(key, None)], None)
        return [RemoveSchedule(key, row.name, row.id) for row in rows if row.key == key]


def _introduced(message: p.SendMessage) -> Content:
    """A message to an agent whose model does not know who sends it."""
    says = Part(text=f"Agent {message.sender} says:")
    return msgspec.structs.replace(message.content, role=USER, parts=[says, *message.content.parts])


def _left_for_reader(log: SessionLog, event: EventScan) -> p.MessageLeft | None:
    """The reply about a message that an agent of the open turn has read already; None: none has."""
    turn = log.turn
    if turn is None or turn.stored.get(event.id, 0) <= turn.row.opened_seq:
        return None
    return p.MessageLeft(invocation_id=log.open_id(), after_seq=turn.stored[event.id] - 1)


NOTIFY_S = 1.0
"""An actor that takes longer reads the message when it listens again."""


class MessageNotifier(RunnerService):
    """Notifies agents. See `StartingHook`."""

    def __init__(self, parts: RunnerParts) -> None:
        self._session = parts.session
        self._table = parts.table
        parts.starter.hooks.append(self)

    async def before(self, message: p.StartTurn, due: ScheduledTime, event_id: str) -> None:
        """Notify agents again of a message that waits, and now asks for its own turn: a Runner may have been lost since."""
        if due.is_message and message.config.on_concurrent_turn == "steer":
            found = await self._session.ask(FindReader(key=message.key, event_id=event_id))
            if found.invocation_id:
                await self.left(message, (message.key, found.invocation_id))

    async def left(self, message: p.StartTurn, turn: TurnKey) -> None:
        """Notify the agents of the turn that may read the message."""
        # Its agents are not known before the reply which opens the turn has come.
        await self._table.opened(turn, OPENING_S)
        if (running := self._table.get(turn)) is not None:
            await _notify(running, message.config.agent if message.due is not None and message.due.is_sent else "")


async def _notify(turn: RunningTurn, agent: str) -> None:
    """Notify the agents that run in a turn, and those that will. One that is asked as a tool works for its caller only.

    Args:
        agent: to which the message was sent: it concerns no other. "": any may read it.
    """
    turn.has_messages = True
    by_link: dict[Link, list[Run]] = {}
    for run in turn.runs.all():
        if run.link is None or tool_root(run.branch) is not None:
            continue
        if agent in ("", run.agent):
            by_link.setdefault(run.link, []).append(run)
    await asyncio.gather(*(_notify_at(turn, link, runs) for link, runs in by_link.items()))


async def _notify_at(turn: RunningTurn, link: Link, runs: Sequence[Run]) -> None:
    with suppress(ActorLostError, TimeoutError):
        async with asyncio.timeout(NOTIFY_S):
            await AgentRef(link).ask(p.NotifyRuns(turn=turn.ref, runs=numbers(runs)))
