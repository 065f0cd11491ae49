"""The part of a session that the Session actor keeps in memory: state, authors by recency, the log's tail, its open turn, and the
queue of turns that wait for that one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from actors.errors import TurnCancelledError
from actors.interfaces.stores import (
    AddEvent,
    CreateSession,
    EventHead,
    EventRow,
    PutState,
    PutTurn,
    SessionRow,
    TurnRow,
    Write,
)
from actors.messages.codec import encode
from actors.messages.json_types import JsonObject
from actors.messages.protocol.base import StoredEvent, TurnRef
from actors.messages.protocol.turns import OpenTurn
from actors.messages.session import SessionKey
from actors.rules import handover_events
from actors.rules.checks import state as scopes
from actors.rules.routing.branches import speaker
from actors.rules.routing.selection import is_selectable
from actors.session.log.event_scan import EventScan
from actors.session.log.open_turn import SessionTurn
from actors.session.log.shared_state import SharedState


class Waiter:
    """A turn in the queue, and the Runner that wants to run it.

    Attributes:
        interrupts: it waits only for the turn that is being cancelled for it.
        is_answer: it has begun before, and is to go on with an answer.
        steers: its message may be given to a turn that begins before it.
        admitted: True when it may begin; False when its request is to be decided once more, since another turn has begun, which
            it has to interrupt first, or which can take its message, or has its event, or since its Runner was lost.
    """

    def __init__(self, message: OpenTurn, event_id: str, *, interrupts: bool, steers: bool) -> None:
        self.invocation_id, self.runner, self.fingerprint = message.invocation_id, message.runner, message.fingerprint
        self.is_answer = bool(message.answers)
        self.event_id = event_id
        self.interrupts = interrupts
        self.steers = steers
        self.admitted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class TurnQueue:
    """Lets one turn of a session run at a time.

    Attributes:
        is_taken: the session is in use: by an open turn, by one that is about to begin, or by a rewind or a deletion.
    """

    def __init__(self) -> None:
        self.is_taken = False
        self._waiters: deque[Waiter] = deque()

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._waiters)

    def has(self, invocation_id: str) -> bool:
        """True when the turn waits in the queue."""
        return any(waiter.invocation_id == invocation_id for waiter in self._waiters)

    def has_new(self, invocation_id: str) -> bool:
        """True when the turn waits in the queue and has not begun yet."""
        return any(waiter.invocation_id == invocation_id and not waiter.is_answer for waiter in self._waiters)

    def has_event(self, event_id: str) -> bool:
        """True when a request with this very event waits in the queue."""
        return any(waiter.event_id == event_id for waiter in self._waiters)

    def fingerprint(self, invocation_id: str) -> str:
        """That of the request whose turn waits in the queue and has not begun yet; "" when it has none."""
        waiting = (waiter for waiter in self._waiters if waiter.invocation_id == invocation_id and not waiter.is_answer)
        return next((waiter.fingerprint for waiter in waiting), "")

    def is_idle(self) -> bool:
        """True when no turn runs or waits."""
        return not self.is_taken and not self._waiters

    async def enqueue(self, waiter: Waiter) -> bool:
        """Wait until the turns before have ended; a turn that interrupts goes to the head. Returns `Waiter.admitted`."""
        if waiter.interrupts:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        return await waiter.admitted

    def start_next(self) -> None:
        """Let the next turn begin. The session stays taken meanwhile, so that no new request overtakes the queue."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.admitted.done():
                waiter.admitted.set_result(True)
                return
        self.is_taken = False

    def note_opened(self) -> None:
        """A turn is open: send back the first in line if that interrupts, to cancel it, and the messages that it takes."""
        self.send_back(lambda waiter: waiter.steers or (waiter.interrupts and waiter is self._waiters[0]))

    def send_back(self, which: Callable[[Waiter], bool]) -> None:
        """Take turns out of the queue; their requests are decided once more."""
        for waiter in [each for each in self._waiters if which(each)]:
            self._waiters.remove(waiter)
            if not waiter.admitted.done():
                waiter.admitted.set_result(False)

    def cancel(self, invocation_id: str) -> bool:
        """Remove a turn, which may not be here: its requests raise TurnCancelledError. Returns True when it was here."""
        waiting = [waiter for waiter in self._waiters if waiter.invocation_id == invocation_id]
        for waiter in waiting:
            self.remove(waiter, TurnCancelledError(invocation_id))
        return bool(waiting)

    def remove(self, waiter: Waiter, reason: Exception) -> None:
        """Remove a turn from the queue; `enqueue` raises the reason."""
        self._waiters.remove(waiter)
        if not waiter.admitted.done():
            waiter.admitted.set_exception(reason)


TAIL = 128
"""Newest events of a log that are kept in memory; older ones are read from the store."""

TAIL_BYTES = 1_000_000
"""Bytes of them, unless a single event is larger."""

MEASURED_AGAIN = 64_000
"""Bytes of changes after which a state is measured, if that is more than it had."""


class SessionLog:
    """One session in memory. Its methods are synchronous: they change memory and return what has to be written.

    Attributes:
        head_seq: the position of the newest event, which may not be on disk yet.
        state_seq: the position of the event that changed the state last.
        generation: names the log; a rewind changes it.
        rewinds: how often the log was rewound, as of when it was loaded.
        is_unchecked: the store has gone back, and the log was not compared with it yet.
        app_state, user_state: one object each for all sessions that share it.
        creation: what creates the session in the store, if that is new; its first write takes it along.
        unwritten: writes that are on their way to the disk.
        used_s: when it was used last, on the clock of `SessionLogs`.
    """

    def __init__(self, row: SessionRow, app_state: SharedState, user_state: SharedState) -> None:
        self.key: SessionKey = row.key
        self.turn: SessionTurn | None = None
        self.queue = TurnQueue()
        self.creation: CreateSession | None = None
        self.unwritten = 0
        self.used_s = 0.0
        self.is_unchecked = False
        self._tail: deque[StoredEvent] = deque()
        self.reload(row, app_state, user_state)

    def reload(self, row: SessionRow, app_state: SharedState, user_state: SharedState) -> None:
        """Replace all by what the store has; the open turn and the queue stay."""
        self.head_seq = row.head_seq
        # Which event changed the state is not stored; this is the latest that it can have been.
        self.state_seq = row.head_seq
        self.created_s = row.created_s
        self.rewinds = row.rewinds
        self.generation = f"{row.created_s}/{row.rewinds}"
        self.updated_s = self._put_s = row.updated_s
        self.state: JsonObject = row.state
        self._measure_state()
        self.app_state = app_state
        self.user_state = user_state
        self._authors = dict(reversed(row.authors))
        self._tail.clear()
        self._tail_size = 0
        self._tail_after = self.head_seq
        self._is_stale = False

    @property
    def is_stale(self) -> bool:
        """True when memory may be ahead of the store, since a write has failed, or the store has gone back: `find` sees to it."""
        return self._is_stale or self.is_unchecked or self.app_state.is_stale or self.user_state.is_stale

    def mark_stale(self) -> None:
        """Have it loaded again when it is used next."""
        self._is_stale = True

    def authors(self) -> Iterator[str]:
        """The agents that have spoken to the user, the most recent first."""
        return reversed(self._authors)

    def merged_state(self, *, temp: bool) -> JsonObject:
        """All scopes by prefixed keys.

        Args:
            temp: with the open turn's `temp:`, which only that may see.
        """
        of_turn = self.turn.temp if temp and self.turn is not None else {}
        if not (self.user_state or self.app_state or of_turn):
            return dict(self.state)
        return scopes.merge(scopes.Scopes(self.state, self.user_state, self.app_state, of_turn))

    def events_after(self, seq: int) -> list[StoredEvent] | None:
        """The stored events after a position, or None when they are not all in memory."""
        if seq < self._tail_after:
            return None
        return [event for event in self._tail if event.seq > seq]

    def events_missed_by_agents(self) -> list[StoredEvent]:
        """The newest events, as far as some agent has missed them, if they are few."""
        if len(self._authors) <= 1:
            # It has heard everything.
            return []
        return handover_events.events_missed_by_agents(reversed(self._tail), reversed(self._authors.values()))

    @property
    def committed_seq(self) -> int:
        """The last position that is on disk."""
        return self._tail[-1].seq if self._tail else self._tail_after

    @property
    def is_opening(self) -> bool:
        """True while the message that opened the turn is not on disk."""
        return self.turn is not None and self.turn.row.opened_seq > self.committed_seq

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory, without what it shares with other logs."""
        return self._tail_size + self._state_size

    def _measure_state(self) -> None:
        self._state_size = len(encode(self.state))
        self._max_unmeasured = max(2 * self._state_size, MEASURED_AGAIN)

    def add(self, raw: bytes, event: EventScan) -> tuple[StoredEvent, list[Write]]:
        """Give an event its position and fold it in. Returns it and what has to be written."""
        self.head_seq += 1
        seq = self.head_seq
        self.updated_s = event.timestamp
        author = speaker(event.author, event.branch) if event.branch else event.author
        takes_floor = False
        if is_selectable(author):
            # A log of which events were hidden is loaded again, so the store knows of the same agent that it has spoken last.
            takes_floor = author != next(self.authors(), None)
            self._authors.pop(author, None)
            self._authors[author] = seq
        delta = scopes.split(event.actions.state_delta) if event.actions.state_delta else None
        undo = encode(scopes.overwritten(self.state, delta.session)) if delta is not None and delta.session else b""
        head = EventHead(id=event.id, invocation_id=event.invocation_id, author=author, timestamp=event.timestamp)
        row = EventRow(seq=seq, head=head, raw=raw, calls=tuple(event.calls), undo=undo)
        writes: list[Write] = [AddEvent(self.key, row, takes_floor)]
        if delta is not None:
            writes += self.fold(delta)
            self.state_seq = max(self.state_seq, seq)
            # An upper bound: overwritten values are not subtracted until the state is measured again.
            self._state_size += len(raw) if delta.session else 0
            if self._state_size > self._max_unmeasured:
                self._measure_state()
        if self.turn is not None:
            self.turn.fold(event, seq)
        return StoredEvent(seq, raw), writes

    def fold(self, delta: scopes.Scopes) -> list[Write]:
        """Change the state. Returns what has to be written. `temp:` keys come beside events, and play no part."""
        self.state.update(delta.session)
        self.user_state.update(delta.user)
        self.app_state.update(delta.app)
        app, user = self.key.app, self.key.user
        by_scope = ((self.key, delta.session), (SessionKey(app, user, ""), delta.user), (SessionKey(app, "", ""), delta.app))
        return [PutState(key, values) for key, values in by_scope if values]

    def mark_committed(self, event: StoredEvent) -> None:
        """The event is on disk: readers may see it."""
        self._tail.append(event)
        self._tail_size += len(event.raw)
        while len(self._tail) > TAIL or (self._tail_size > TAIL_BYTES and len(self._tail) > 1):
            oldest = self._tail.popleft()
            self._tail_after = oldest.seq
            self._tail_size -= len(oldest.raw)

    def drop_tail(self) -> None:
        """Leave all events to the store, since memory is scarce."""
        self._tail_after = self.committed_seq
        self._tail.clear()
        self._tail_size = 0

    def open_row(self, invocation_id: str) -> TurnRow | None:
        """The record of the turn, if it is the open one."""
        return self.turn.row if self.turn is not None and self.turn.row.invocation_id == invocation_id else None

    def open_id(self) -> str:
        """The invocation id of the open turn, "" when none is open."""
        return self.turn.row.invocation_id if self.turn is not None else ""

    def takes(self, event_id: str) -> bool:
        """True while a turn runs that can read a message."""
        turn = self.turn
        return turn is not None and not turn.is_ending and event_id not in turn.stored

    def put_turn(self, row: TurnRow) -> PutTurn:
        """The write that stores a turn's record."""
        before_s, self._put_s = self._put_s, self.updated_s
        return PutTurn(self.key, row, self.updated_s, changes_time=self.updated_s != before_s)

    def is_current(self, turn: TurnRef) -> bool:
        """True when writes with this fencing token are accepted."""
        open_turn = self.turn
        return (
            open_turn is not None
            and not open_turn.is_ending
            and self.generation == turn.generation
            and open_turn.is_written_by(turn)
        )
