"""Finding turns, and following those that are there: the one that a fencing token names, the record of any, and the one that a
message is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.errors import (
    FencedError,
    InvalidMessageError,
    InvocationNotFoundError,
    RepeatMismatchError,
    SessionNotFoundError,
    StoreConflictError,
    UnknownFunctionCallError,
)
from actors.interfaces.stores import CallRow, TurnFilter, TurnRow
from actors.messages import protocol as p
from actors.messages.event import FINGERPRINT, decode_event
from actors.messages.graph import REQUEST_INPUT, node_at
from actors.messages.json_types import JsonMapping
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import SessionKey
from actors.rules.failures import failure
from actors.rules.routing.pending import WaitingTask, waiting_task
from actors.session.log.event_scan import EventScan, scan
from actors.session.log.open_turn import OVER, SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts

MAX_PAUSED = 100
"""So many paused turns of a session, those that began last, are looked through for one that waits for the user's words."""


class KnownTurn(NamedTuple):
    """A turn that was asked for and is there already.

    Attributes:
        row: its record; None while it waits in the queue and has not begun.
        answer_seq: the position of the user's event, if the request answers calls; else 0.
        is_other: it began with another request.
    """

    invocation_id: str
    row: TurnRow | None
    answer_seq: int
    is_other: bool


class TurnLookup:
    """Answers FindTurn and Subscribe, and finds turns for the other handlers."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._reader = parts.reader
        self._subscriptions = parts.subscriptions

    async def find_turn(self, message: p.FindTurn) -> p.TurnFound:
        """Tell which agents could take a message. Nothing is stored, not even a session that would be created.

        Raises:
            SessionNotFoundError: there is no session, and it is not to be created.
            UnknownFunctionCallError: the message answers a call that the log has not.
            InvalidMessageError: it answers calls of several turns that can go on.
            RepeatMismatchError: the turn asked for began with another request.
            StoreError: the store cannot be read.
        """
        key = message.key
        log = await self._logs.find(key)
        if log is None:
            if not message.auto_create:
                raise SessionNotFoundError(key.app, key.user, key.session)
            if message.call_ids:
                raise UnknownFunctionCallError(message.call_ids[0], key.session)
            return p.TurnFound(authors=())
        calls = await self._reader.calls(key, message.call_ids)
        if calls:
            await self._require_one_turn(log, list(dict.fromkeys(call.invocation_id for call in calls)))
            return p.TurnFound(
                authors=self._parts.deciding(log.authors()),
                caller=calls[0].author,
                invocation_id=calls[0].invocation_id,
                questions=await self._questions(key, calls) if message.wants_questions else {},
            )
        place = await self._reader.position(key, message.event_id) if message.event_id else None
        if place is not None and place[1] != message.invocation_id:
            row = await self.row(log, place[1])
            has_opened = row is None or place[0] <= row.opened_seq
            return p.TurnFound(authors=(), invocation_id=place[1], is_there=True, seq=place[0] if has_opened else 0)
        if message.may_answer_task and (task := await self.waiting_task(log)) is not None:
            authors = self._parts.deciding(log.authors())
            return p.TurnFound(authors=authors, caller=node_at(task.path), invocation_id=task.invocation_id)
        row = await self.row(log, message.invocation_id) if message.invocation_id else None
        await self.refuse_other(log, message.invocation_id, row, message.fingerprint)
        return p.TurnFound(
            authors=self._parts.deciding(log.authors()),
            is_there=row is not None or log.queue.has(message.invocation_id),
            agent=row.agent if row is not None else "",
        )

    async def _questions(self, key: SessionKey, calls: Sequence[CallRow]) -> dict[str, JsonMapping]:
        """The arguments of calls with which nodes of a graph ask the user."""
        found: dict[str, JsonMapping] = {}
        for row in calls:
            stored = await self._reader.event(key, row.seq)
            for call in decode_event(stored.raw, stored.seq).function_calls() if stored is not None else ():
                if call.id == row.call_id and call.name == REQUEST_INPUT:
                    found[row.call_id] = call.args
        return found

    async def waiting_task(self, log: SessionLog) -> WaitingTask | None:
        """The task that the user's next words answer. Raises StoreError."""
        if not log.head_seq:
            return None
        key = log.key
        paused = await self._reader.turns(
            TurnFilter(app=key.app, user=key.user, session=key.session, status="paused", limit=MAX_PAUSED)
        )
        return waiting_task((row.opened_seq, row.invocation_id, p.decode_outcome(row.outcome)) for _, row in paused)

    async def _require_one_turn(self, log: SessionLog, answered: Sequence[str]) -> None:
        """Raise InvalidMessageError if a turn after the first of `answered` waits, too: the message would not continue it."""
        for other in answered[1:]:
            row = await self.row(log, other)
            if row is not None and row.status not in OVER:
                raise InvalidMessageError(
                    f"the message answers calls of the turns {answered[0]!r} and {other!r}, but continues only one turn: "
                    "send one message for each"
                )

    async def current(self, turn: p.TurnRef) -> tuple[SessionLog, SessionTurn]:
        """The session and the turn that a fencing token names. Waits for an end that is on its way: it may not get there.

        Raises:
            FencedError: the turn is not open, or the token is out of date.
            StoreError: the log had to be loaded, and could not be.
        """
        await self.settled(turn.key, turn.invocation_id)
        log = self._logs.in_memory(turn.key)
        if log is None or log.is_stale:
            await self._logs.find(turn.key)
            await self.settled(turn.key, turn.invocation_id)
        return self.current_in_memory(turn)

    async def settled(self, key: SessionKey, invocation_id: str) -> None:
        """Wait while the end of a turn is on its way to the disk, also when the agent that has sent it waits no more."""
        log = self._logs.in_memory(key)
        if log is not None and log.turn is not None and log.open_id() == invocation_id:
            await log.turn.settled()

    def current_in_memory(self, turn: p.TurnRef) -> tuple[SessionLog, SessionTurn]:
        """The same, without loading a log. Raises FencedError."""
        log = self._logs.in_memory(turn.key)
        if log is None or log.turn is None or not log.is_current(turn):
            raise FencedError(turn.invocation_id, turn.epoch)
        return log, log.turn

    async def log_and_row(self, key: SessionKey, invocation_id: str) -> tuple[SessionLog, TurnRow | None]:
        """The log of a session, and a turn's record as of the same moment: see `row`. Raises SessionNotFoundError, StoreError."""
        while True:
            log = await self._logs.load(key)
            row = await self.row(log, invocation_id)
            # The log may have been evicted while the store was asked.
            if self._logs.in_memory(key) is log:
                return log, row

    async def row(self, log: SessionLog, invocation_id: str) -> TurnRow | None:
        """The record of a turn that is open, paused or has ended; None for one that has not begun. Raises StoreError."""
        if not log.head_seq:
            # A new session. The store would be asked only after it has written that.
            return None
        row = log.open_row(invocation_id) or await self._reader.turn(log.key, invocation_id)
        # It may have begun while the store was asked.
        return log.open_row(invocation_id) or row

    async def refuse_other(self, log: SessionLog, invocation_id: str, row: TurnRow | None, fingerprint: str) -> None:
        """Raise RepeatMismatchError if the turn, with that record or in line, is of another request; StoreError."""
        in_line = log.queue.fingerprint(invocation_id)
        if differs(fingerprint, in_line) or await self.began_with_other(log, row, fingerprint):
            raise RepeatMismatchError(invocation_id, log.key.session)

    async def began_with_other(self, log: SessionLog, row: TurnRow | None, fingerprint: str) -> bool:
        """True when a turn began with another request than that of the fingerprint. Raises StoreError."""
        if not fingerprint or row is None:
            return False
        stored = await self._reader.event(log.key, row.first_seq)
        event = decode_event(stored.raw, stored.seq) if stored is not None else None
        metadata = (event.custom_metadata if event is not None else None) or {}
        return differs(fingerprint, str(metadata.get(FINGERPRINT, "")))

    async def subscribe(self, message: p.Subscribe) -> p.Subscribed:
        """Deliver a turn to a subscriber, its events in the log first, and say where the turn is.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn.
            RepeatMismatchError: it is of another request.
            StoreError: the store cannot be read.
        """
        if message.invocation_id == WHOLE_SESSION:
            log = await self._logs.load(message.key)
            self._subscriptions.add(message.subscriber, message.key, WHOLE_SESSION, message.after_seq, log.committed_seq)
            return p.Subscribed(status="running")
        log, row = await self.log_and_row(message.key, message.invocation_id)
        if row is None and not log.queue.has(message.invocation_id):
            raise InvocationNotFoundError(message.invocation_id, message.key.session)
        await self.refuse_other(log, message.invocation_id, row, message.fingerprint)
        await self.join(log, message.invocation_id, row, message.subscriber, message.after_seq)
        return p.Subscribed(status=_status(log, message.invocation_id))

    async def join(self, log: SessionLog, invocation_id: str, row: TurnRow | None, subscriber: str, after_seq: int = 0) -> None:
        """Deliver a turn to a subscriber, which may follow it from a later event on, such as an answer. Raises StoreError.

        Args:
            subscriber: "" is none.
            row: the turn's record as it was just found; None while it waits in the queue and has not begun.
            after_seq: the last position that the subscriber knows.
        """
        if not subscriber:
            return
        after_seq = max(row.first_seq if row is not None else log.head_seq, after_seq)
        if log.queue.has(invocation_id) or log.open_row(invocation_id) is not None:
            self._subscriptions.add(subscriber, log.key, invocation_id, after_seq, log.committed_seq)
            return
        if row is None or not row.outcome:
            # It has ended since it was found.
            row = await self._reader.turn(log.key, invocation_id)
        if row is None:
            raise InvocationNotFoundError(invocation_id, log.key.session)
        if row.outcome:
            outcome = p.decode_outcome(row.outcome)
        elif log.queue.is_taken:
            # The session is being removed, with a turn that is lost. What follows that hears of it.
            self._subscriptions.add(subscriber, log.key, invocation_id, after_seq, log.committed_seq)
            return
        else:
            outcome = failure(StoreConflictError(log.key.session, f"turn {invocation_id!r} goes on there"))
        self._subscriptions.add_ended(subscriber, log.key, invocation_id, after_seq, log.committed_seq, outcome, row.opened_seq)


def unknown_turn(invocation_id: str, first_seq: int) -> TurnRow:
    """The record of a turn that has none, such as one of an imported conversation."""
    return TurnRow(invocation_id=invocation_id, status="", epoch=0, first_seq=first_seq, opened_seq=first_seq)


def differs(fingerprint: str, before: str) -> bool:
    """True for fingerprints of two requests. Turns of programs, and of earlier versions, have none."""
    return bool(fingerprint and before) and fingerprint != before


def missing_notes(turn: SessionTurn, notes: Sequence[p.Note]) -> list[tuple[bytes, EventScan]]:
    """The notes that the turn's log lacks.

    Raises:
        FencedError: the run of one was abandoned, and with it all that it has asked for.
    """
    if any(note.run in turn.abandoned for note in notes):
        raise FencedError(turn.row.invocation_id, turn.row.epoch)
    return [(note.raw, event) for note in notes if (event := scan(note.raw)).id not in turn.stored]


def _status(log: SessionLog, invocation_id: str) -> p.TurnStatus:
    if log.turn is not None and log.open_row(invocation_id) is not None:
        return "lost" if not log.turn.runner else "waiting" if log.is_opening else "running"
    return "waiting" if log.queue.has(invocation_id) else "ended"
