"""The part of a session that the Session actor keeps in memory: state, authors by recency, the log's tail, its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from actors.interfaces.records import AddEvent, EventHead, EventRow, PutState, PutTurn, SessionRow, TurnRow, Write
from actors.messages.codec import encode
from actors.messages.event import USER
from actors.messages.protocol.base import StoredEvent, TurnRef
from actors.messages.session import SessionKey
from actors.rules.checks import state as scopes
from actors.session.log.event_scan import EventScan
from actors.session.log.open_turn import OpenTurn
from actors.session.log.turn_queue import Waiter

TAIL = 128
"""Events of a log that are kept in memory at most; readers that are further behind are served from the store."""

TAIL_BYTES = 1_000_000
"""The same in bytes, unless a single event is larger."""

MEASURED_AGAIN = 64_000
"""Bytes of changes after which a state is measured, if that is more than it had."""


class SessionLog:
    """One session in memory. Everything it does is synchronous: it changes memory and returns what has to be written.

    Attributes:
        unwritten: writes that are on their way to the disk.
        used_s: when it was touched last, on its keeper's clock.
    """

    def __init__(self, row: SessionRow, app_state: dict[str, Any], user_state: dict[str, Any]) -> None:
        self.key: SessionKey = row.key
        self.turn: OpenTurn | None = None
        self.is_taken = False
        self.queue: deque[Waiter] = deque()
        self.unwritten = 0
        self.used_s = 0.0
        self._tail: deque[StoredEvent] = deque()
        self.reload(row, app_state, user_state)

    def reload(self, row: SessionRow, app_state: dict[str, Any], user_state: dict[str, Any]) -> None:
        """Take over what the store has; the running turn and those in line stay."""
        self.head_seq = row.head_seq
        # Which event changed the state is not stored; the last one is as late as it can have been.
        self.state_seq = row.head_seq
        self.generation = f"{row.created_s}/{row.rewinds}"
        self.updated_s = row.updated_s
        self.state = row.state
        self._measure_state()
        # Shared with all sessions of the app, or of the user.
        self.app_state = app_state
        self.user_state = user_state
        self.set_authors(row.authors)
        self.forget_tail()
        self.is_stale = False

    # ------------------------------------------------------------------------------------------------------- reading
    def authors(self) -> Iterator[str]:
        """Agents that have spoken, the most recent first."""
        return (author for author in reversed(self._authors) if author != USER)

    def set_authors(self, authors: Sequence[tuple[str, int]]) -> None:
        """Take over the authors, the most recent first, with the places of their last events."""
        self._authors = dict.fromkeys(author for author, _ in reversed(authors))

    def merged_state(self) -> dict[str, Any]:
        """All scopes by prefixed keys, with the running turn's `temp:`."""
        temp = self.turn.temp if self.turn is not None else {}
        return scopes.merge(scopes.Scopes(self.state, self.user_state, self.app_state, temp))

    def behind(self, after_seq: int) -> list[StoredEvent] | None:
        """The stored events behind `after_seq`, or None when they are not all in memory."""
        if after_seq < self._tail_after:
            return None
        return [event for event in self._tail if event.seq > after_seq]

    @property
    def settled_seq(self) -> int:
        """The last place that is on disk."""
        return self._tail[-1].seq if self._tail else self._tail_after

    def is_idle(self) -> bool:
        """True when no turn runs or waits."""
        return not self.is_taken and not self.queue

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory, what it shares with other logs left out."""
        return self._tail_size + self._state_size

    def _measure_state(self) -> None:
        self._state_size = len(encode(self.state))
        self._most_state = max(2 * self._state_size, MEASURED_AGAIN)

    # ------------------------------------------------------------------------------------------------------- writing
    def add(self, raw: bytes, event: EventScan) -> tuple[StoredEvent, list[Write]]:
        """Give an event its place and fold it in. Returns it and what has to be written."""
        self.head_seq += 1
        seq = self.head_seq
        self.updated_s = event.timestamp
        self._authors.pop(event.author, None)
        self._authors[event.author] = None
        delta = scopes.split(event.actions.state_delta) if event.actions.state_delta else None
        undo = encode(scopes.overwritten(self.state, delta.session)) if delta is not None and delta.session else b""
        head = EventHead(id=event.id, invocation_id=event.invocation_id, author=event.author, timestamp=event.timestamp)
        row = EventRow(seq=seq, head=head, raw=raw, calls=tuple(event.calls()), undo=undo)
        writes: list[Write] = [AddEvent(self.key, row)]
        if delta is not None:
            writes += self.fold(delta)
            self.state_seq = max(self.state_seq, seq)
            # An upper bound: what is overwritten is not taken off until the state is measured again.
            self._state_size += len(raw) if delta.session else 0
            if self._state_size > self._most_state:
                self._measure_state()
        if self.turn is not None:
            self.turn.note(event, seq)
        return StoredEvent(seq, raw), writes

    def fold(self, delta: scopes.Scopes) -> list[Write]:
        """Take changes of state in. Returns what has to be written."""
        self.state.update(delta.session)
        self.user_state.update(delta.user)
        self.app_state.update(delta.app)
        if self.turn is not None:
            self.turn.temp.update(delta.temp)
        app, user = self.key.app, self.key.user
        by_scope = ((self.key, delta.session), (SessionKey(app, user, ""), delta.user), (SessionKey(app, "", ""), delta.app))
        return [PutState(key, values) for key, values in by_scope if values]

    def settle(self, event: StoredEvent) -> None:
        """The event is on disk: readers may see it."""
        self._tail.append(event)
        self._tail_size += len(event.raw)
        while len(self._tail) > TAIL or (self._tail_size > TAIL_BYTES and len(self._tail) > 1):
            oldest = self._tail.popleft()
            self._tail_after = oldest.seq
            self._tail_size -= len(oldest.raw)

    def forget_tail(self) -> None:
        """The log was rewound: what is in memory may not be seen any more."""
        self._tail.clear()
        self._tail_size = 0
        self._tail_after = self.head_seq

    def shorten(self) -> None:
        """Leave what is on disk to be read from there: memory is scarce."""
        self._tail_after = self.settled_seq
        self._tail.clear()
        self._tail_size = 0

    async def enqueue(self, waiter: Waiter) -> bool:
        """Wait for the end of the turns before: see Waiter. One that interrupts stands at the head of the line."""
        if waiter.interrupts:
            self.queue.appendleft(waiter)
        else:
            self.queue.append(waiter)
        return await waiter.admitted

    def reject_interrupter(self) -> None:
        """A turn has begun: who came to interrupt when none ran, although the session was taken, is told of it."""
        if self.queue and self.queue[0].interrupts:
            waiter = self.queue.popleft()
            if not waiter.admitted.done():
                waiter.admitted.set_result(False)

    def start_next(self) -> None:
        """Let the next turn in line begin. The session stays taken meanwhile, so that nobody can step in between."""
        while self.queue:
            waiter = self.queue.popleft()
            if not waiter.admitted.done():
                waiter.admitted.set_result(True)
                return
        self.is_taken = False

    def dismiss(self, waiter: Waiter, reason: Exception) -> None:
        """Take a turn out of the line."""
        self.queue.remove(waiter)
        if not waiter.admitted.done():
            waiter.admitted.set_exception(reason)

    def waits(self, invocation_id: str) -> bool:
        """True when the turn stands in line."""
        return any(waiter.invocation_id == invocation_id for waiter in self.queue)

    def runs(self, invocation_id: str) -> TurnRow | None:
        """The record of the turn, if it runs."""
        return self.turn.row if self.turn is not None and self.turn.row.invocation_id == invocation_id else None

    def busy_with(self) -> str:
        """The invocation id of the turn that runs, "" when none does."""
        return self.turn.row.invocation_id if self.turn is not None else ""

    def put_turn(self, row: TurnRow) -> PutTurn:
        """What has to be written of a turn's record."""
        return PutTurn(self.key, row, self.updated_s)

    def is_current(self, turn: TurnRef) -> bool:
        """True when the turn runs, with that epoch."""
        return (
            self.turn is not None
            and not self.turn.is_ending
            and self.turn.row.invocation_id == turn.invocation_id
            and self.turn.row.epoch == turn.epoch
            and turn.run not in self.turn.lost
        )
