"""Forks of sessions: a new session that has all of another one up to the end of a turn.

Rules of this file:

- Events keep their positions: what is stored in them, and in the records of turns, names some of these.
- The state is as it was then, and so is what a rewind of the fork restores.
- Turns keep how they ended, and paused ones wait in the fork as well: each is answered by itself. What they have used counts
  once, where it was used.
- All of it is one transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from actors.actor import Handlers
from actors.errors import InvocationNotFoundError, RequestError, SessionBusyError, TurnStateError
from actors.interfaces.stores import AddEvent, CreateSession, EventHead, EventRow, PutState, PutTurn, TurnRow, Write
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import AddSchedule
from actors.layers.stores.schedule import ScheduleRow
from actors.messages import protocol as p
from actors.messages.codec import decode, encode
from actors.messages.event import now_s
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.protocol.base import Ack, Lane, Request, Route, StoredEvent
from actors.messages.session import SessionKey
from actors.rules.accounting import negated, packed, together
from actors.rules.checks import state as scopes
from actors.rules.routing.branches import speaker
from actors.session.log.event_scan import scan
from actors.session.service import SessionParts, SessionService


class ForkSession(Request[Ack], frozen=True, kw_only=True):
    """Make a new session of the same user that has all of a session up to the end of a turn.

    Attributes:
        fork: the id of the new session.
        begins: a message of the fork, as a schedule that is due, whose turn begins whatever is lost; None: none does.
        again: the request may have been done before: then nothing is left to do if the fork is there.
    """

    route = Route.SESSION
    lane = Lane.CHANGE
    is_sent_once = True

    key: SessionKey
    invocation_id: str
    fork: str
    begins: ScheduleRow | None = None
    again: bool = False


MAX_BYTES = 64_000_000
"""How large the events of a fork may be: they are written at once."""

Undos = Sequence[tuple[int, Mapping[str, list[JsonValue]]]]
"""What events have overwritten, the newest first, each with its position."""


class SessionForks(SessionService):
    """Answers ForkSession.

    Args:
        note_due: has a Runner begin the turn of a message.
    """

    def __init__(self, parts: SessionParts, note_due: Callable[[int | None], None]) -> None:
        self._parts = parts
        self._note_due = note_due
        self._reader = parts.reader

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            ForkSession: self.fork,
        }

    async def fork(self, message: ForkSession) -> p.Ack:
        """Make a fork of a session.

        Raises:
            SessionNotFoundError, InvocationNotFoundError: there is no such session, or turn.
            SessionBusyError: a turn of the session runs or waits.
            SessionExistsError: the id of the fork is taken.
            TurnStateError: another turn has begun before the end of the turn, and ended after it.
            RequestError: there is too much.
            StoreError: nothing is stored.
        """
        if message.again and await self._is_there(message):
            return p.Ack()
        log = await self._parts.logs.load(message.key)
        if not log.queue.is_idle():
            raise SessionBusyError(message.key.session, log.open_id())
        # No turn begins, and nothing is taken back, until all is read.
        log.queue.is_taken = True
        try:
            row = await self._reader.turn(message.key, message.invocation_id)
            if row is None:
                raise InvocationNotFoundError(message.invocation_id, message.key.session)
            writes = await self._copied(message, dict(log.state), row.last_seq)
            begins = message.begins
            if begins is not None:
                writes.append(AddSchedule(begins.key, begins))
        finally:
            log.queue.start_next()
        # Under a name that no session has: the id may be that of a session with writes of its own, which must not fail with it.
        name = SessionKey("", "", message.fork)
        try:
            await self._parts.access.commits.submit(name, writes)
        finally:
            self._parts.access.commits.clear_failure(name)
        self._note_due(begins.due_s if begins is not None else None)
        return p.Ack()

    async def _is_there(self, message: ForkSession) -> bool:
        """True when a request that was sent before has made the fork: its message waits, or its turn has begun.

        Without a message it ends with the very event of the turn.
        """
        fork, begins = _fork_key(message), message.begins
        if begins is not None:
            waits = await self._parts.access.read(store_of(self._parts.access).schedule, fork.app, fork.user, begins.name)
            return (waits is not None and waits.id == begins.id) or await self._reader.turn(fork, begins.id) is not None
        newest = await self._reader.events(fork, limit=1, newest=True)
        if not newest or scan(newest[0].raw).invocation_id != message.invocation_id:
            return False
        return newest == await self._reader.events(message.key, after_seq=newest[0].seq - 1, limit=1)

    async def _copied(self, message: ForkSession, state: JsonObject, last_seq: int) -> list[Write]:
        """The writes that make a fork with all up to a position.

        Args:
            state: of the session as it is now.
        """
        key = message.key
        fork = _fork_key(message)
        raw_undos = await self._parts.access.read(self._parts.access.store.undos, key, 1)
        undos: Undos = [(seq, decode(undo, dict)) for seq, undo in raw_undos]
        now = now_s()
        turns = [turn async for turn in self._reader.turns_of(key) if turn.first_seq <= last_seq]
        for turn in turns:
            if turn.last_seq > last_seq:
                raise TurnStateError(
                    f"turn {message.invocation_id!r} has ended while turn {turn.invocation_id!r} was paused: fork session "
                    f"{key.session!r} at the end of that one, or of one before it"
                )
        events = [AddEvent(fork, row) async for row in self._events(key, last_seq, undos)]
        return [
            CreateSession(fork, now),
            *events,
            *(PutTurn(fork, self._unpaid(turn), now) for turn in turns),
            PutState(fork, _state_at(state, [undo for seq, undo in undos if seq > last_seq])),
        ]

    def _unpaid(self, row: TurnRow) -> TurnRow:
        """The record of a turn in the fork, where what it has used does not count, also when it goes on."""
        turn = self._reader.turn_of(row)
        ledger = turn.ledger
        # The events of the copy are added to this when the turn goes on.
        less = together(ledger.extra, negated(ledger.spent))
        ledger.extra = {spender: amounts for spender, amounts in less.items() if any(amounts)}
        return msgspec.structs.replace(row, temp=turn.checkpoint(), usage=packed({}))

    async def _events(self, key: SessionKey, last_seq: int, undos: Undos) -> AsyncIterator[EventRow]:
        """The visible events up to a position, as they are stored."""
        after_seq, size = 0, 0
        oldest_first = list(reversed(undos))
        while page := await self._reader.page(key, after_seq):
            for stored in page:
                if stored.seq > last_seq:
                    return
                size += len(stored.raw)
                if size > MAX_BYTES:
                    raise RequestError(
                        f"session {key.session!r} has more than {MAX_BYTES:,} bytes up to that turn: a fork is made at once, so "
                        "fork it at an earlier turn"
                    )
                # With those of events before it that were rewound, as a rewind takes all of them back together.
                skipped: list[Mapping[str, list[JsonValue]]] = []
                while oldest_first and oldest_first[0][0] <= stored.seq:
                    skipped.insert(0, oldest_first.pop(0)[1])
                yield _row(stored, encode(scopes.take_back(skipped)) if skipped else b"")
            after_seq = page[-1].seq


def _fork_key(message: ForkSession) -> SessionKey:
    return SessionKey(message.key.app, message.key.user, message.fork)


def _row(stored: StoredEvent, undo: bytes) -> EventRow:
    event = scan(stored.raw)
    author = speaker(event.author, event.branch)
    head = EventHead(id=event.id, invocation_id=event.invocation_id, author=author, timestamp=event.timestamp)
    return EventRow(seq=stored.seq, head=head, raw=stored.raw, calls=tuple(event.calls), undo=undo)


def _state_at(now: JsonObject, undos: Sequence[Mapping[str, list[JsonValue]]]) -> JsonObject:
    """The state as it was before some deltas, of which the newest is the first."""
    state = dict(now)
    for name, before in scopes.take_back(undos).items():
        if before:
            state[name] = before[0]
        else:
            state.pop(name, None)
    return state
