"""The part of a session that the Session actor keeps in memory: state, authors by recency, the log's tail, its turn."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from actors.interfaces.stores import AddEvent, EventHead, EventRow, PutState, PutTurn, SessionRow, TurnRow, Write
from actors.messages.config import RunConfig
from actors.messages.event import USER, Event
from actors.messages.protocol import Handover, StoredEvent, TurnRef, TurnSoFar
from actors.messages.session import SessionKey
from actors.messages.wire import decode, encode
from actors.rules import state as scopes

TAIL = 128
"""Events of a log that are kept in memory at most; readers that are further behind are served from the store."""

TAIL_BYTES = 1_000_000
"""The same in bytes, unless a single event is larger."""

MEASURED_AGAIN = 64_000
"""Bytes of changes after which a state is measured, if that is more than it had."""


class _CallScan(msgspec.Struct, gc=False):
    id: str | None = None
    name: str = ""


class _PartScan(msgspec.Struct, rename="camel", gc=False):
    function_call: _CallScan | None = None
    function_response: _CallScan | None = None


class _ContentScan(msgspec.Struct, gc=False):
    role: str = ""
    parts: Sequence[_PartScan] = ()


class _ActionsScan(msgspec.Struct, rename="camel", gc=False):
    state_delta: dict[str, Any] = {}
    transfer_to_agent: str | None = None
    agent_state: dict[str, Any] | None = None


class EventScan(msgspec.Struct, rename="camel", gc=False):
    """As much of an event as its keeper must know. The rest of its bytes is passed over, not decoded."""

    id: str = ""
    invocation_id: str = ""
    author: str = ""
    timestamp: float = 0.0
    branch: str | None = None
    content: _ContentScan | None = None
    actions: _ActionsScan = msgspec.field(default_factory=_ActionsScan)

    def calls(self) -> dict[str, str]:
        """Names of the functions called, by the calls' ids."""
        parts = self.content.parts if self.content is not None else ()
        return {call.id: call.name for part in parts if (call := part.function_call) is not None and call.id}

    def answered(self) -> list[str]:
        """Ids of the calls answered."""
        parts = self.content.parts if self.content is not None else ()
        return [answer.id for part in parts if (answer := part.function_response) is not None and answer.id]


_DEFAULT = RunConfig()

_scanner = msgspec.msgpack.Decoder(EventScan)


def scan(raw: bytes) -> EventScan:
    """Look into an encoded event. Raises msgspec.ValidationError when it is none."""
    return _scanner.decode(raw)


class OpenCall(NamedTuple):
    """A call without an answer: whose, on which branch, and of which function."""

    author: str
    branch: str | None
    name: str


class _Carried(msgspec.Struct, array_like=True, omit_defaults=True):
    """What a turn's record carries for whoever goes on with it."""

    temp: dict[str, Any] = {}
    config: RunConfig = RunConfig()


class OpenTurn:
    """The turn that runs in a session.

    Attributes:
        runner: who runs it; "" when the Session actor has been started anew and nobody has said so yet.
        lost: numbers of runs that may write no more.
        stored: places of its events, by id.
    """

    def __init__(self, row: TurnRow, config: RunConfig, runner: str = "", temp: Mapping[str, Any] | None = None) -> None:
        self.row = row
        self.config = config
        self.runner = runner
        self.temp = dict(temp or {})
        self.lost: set[int] = set()
        self.is_ending = False
        self.forget()

    @classmethod
    def of(cls, row: TurnRow) -> OpenTurn:
        """The turn of a record, with nothing known of its events yet."""
        carried = decode(row.temp, _Carried) if row.temp else _Carried()
        return cls(row, carried.config, temp=carried.temp)

    def forget(self) -> None:
        """Nothing is known of its events: they have to be noted again, from the first."""
        self.stored: dict[str, int] = {}
        self.open_calls: dict[str, OpenCall] = {}
        self._head_seq = self.row.first_seq
        self._callers: tuple[str, ...] = ()
        self._progress: dict[str, tuple[int, dict[str, Any]]] = {}
        self._handovers: list[Handover] = []
        self._said: Counter[str] = Counter()

    def record(self) -> TurnRow:
        """Its record as it is now."""
        carries_nothing = not self.temp and self.config == _DEFAULT
        return msgspec.structs.replace(self.row, temp=b"" if carries_nothing else encode(_Carried(self.temp, self.config)))

    def note(self, event: EventScan, seq: int) -> None:
        """Keep in mind what an event of the turn leaves open, and how far the turn is with it."""
        self.stored[event.id] = self._head_seq = seq
        if event.author == USER and event.branch is None:
            answered = (self.open_calls.get(call_id) for call_id in event.answered())
            self._callers = tuple(call.author for call in answered if call is not None)
        for call_id, name in event.calls().items():
            self.open_calls[call_id] = OpenCall(event.author, event.branch, name)
        for call_id in event.answered():
            self.open_calls.pop(call_id, None)
        if event.content is not None and event.content.role == "model":
            self._said[event.author] += 1
        if event.actions.agent_state is not None:
            self._progress[event.author] = (seq, event.actions.agent_state)
        if event.actions.transfer_to_agent is not None:
            self._handovers.append(Handover(seq, event.branch, event.author, event.actions.transfer_to_agent))

    def so_far(self) -> TurnSoFar:
        """What the log tells of it."""
        return TurnSoFar(
            first_seq=self.row.first_seq,
            opened_seq=self.row.opened_seq,
            head_seq=self._head_seq,
            callers=self._callers,
            progress=self._progress,
            handovers=tuple(self._handovers),
            said=dict(self._said),
        )


class Waiter:
    """A turn in line, and the Runner that wants to run it.

    Attributes:
        interrupts: it waits only for the turn that is being cancelled for it.
        admitted: True when it may begin; False when another has begun that it has to interrupt.
    """

    def __init__(self, invocation_id: str, runner: str, *, interrupts: bool = False) -> None:
        self.invocation_id = invocation_id
        self.runner = runner
        self.interrupts = interrupts
        self.admitted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class HotLog:
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

    async def stand_in_line(self, waiter: Waiter) -> bool:
        """Wait for the end of the turns before: see Waiter. One that interrupts stands at the head of the line."""
        if waiter.interrupts:
            self.queue.appendleft(waiter)
        else:
            self.queue.append(waiter)
        return await waiter.admitted

    def meet_interrupter(self) -> None:
        """A turn has begun: who came to interrupt when none ran, although the session was taken, is told of it."""
        if self.queue and self.queue[0].interrupts:
            waiter = self.queue.popleft()
            if not waiter.admitted.done():
                waiter.admitted.set_result(False)

    def admit_next(self) -> None:
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


def new_event(event: Event) -> tuple[bytes, EventScan]:
    """An event that the Session actor itself makes, in the form that it handles."""
    raw = encode(event)
    return raw, scan(raw)
