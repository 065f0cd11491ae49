"""A store that has gone back to an older copy of itself, as after a fail-over to a replica that lags.

What is gone cannot be brought back. But a log must have no holes, and what was acknowledged must not vanish in silence:

- No log that is in memory is written to or read before it was compared with the store. One that has lost nothing goes on.
- What runs or waits in a session that has lost something ends with EventsLostError, and so does the first request for it where
  nothing runs. Then the session goes on from what the store has, under another generation, so that all readers begin anew.
- Sessions that are not in memory have nothing to be compared with.
"""

from __future__ import annotations

import logging
from typing import NamedTuple
from weakref import WeakSet

import msgspec

from actors.errors import EventsLostError
from actors.interfaces.stores import HideEvents, PutTurn, SessionRow, TurnRow, Write
from actors.messages.codec import encode
from actors.messages.event import now_s
from actors.messages.protocol.runs import Failed
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import SessionKey
from actors.rules.failures import failure
from actors.session.log.reader import StoredSession
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts, SessionService


class LogMark(NamedTuple):
    """How far a log is: as the Session actor has acknowledged it, or as the store has it.

    Attributes:
        created_s: when the session was created, in seconds since the epoch.
        rewinds: how often the log was rewound.
        seq: the position of the newest event.
        raw: that event, encoded; None where it is not known, or was rewound.
        open_turn: the invocation id of the turn that has not ended; "" when there is none.
    """

    created_s: float
    rewinds: int
    seq: int
    raw: bytes | None
    open_turn: str


def what_is_lost(known: LogMark, stored: LogMark | None) -> str:
    """The acknowledged events that are not in the store, in words; "" when all are.

    The store may have more than is known: the connection broke while it was committing, and it has.

    Args:
        stored: None when there is no such session.
    """
    if stored is None or stored.created_s != known.created_s:
        return f"all that was stored of it, {known.seq} events"
    if stored.seq < known.seq:
        return f"its events {stored.seq + 1} to {known.seq}"
    if stored.rewinds < known.rewinds:
        return "its last rewind"
    if stored.seq > known.seq:
        return ""
    if None not in (known.raw, stored.raw) and known.raw != stored.raw:
        return f"its event {known.seq}"
    if stored.open_turn != known.open_turn:
        return f"how turn {stored.open_turn!r} has ended" if stored.open_turn else f"the record of turn {known.open_turn!r}"
    return ""


logger = logging.getLogger(__name__)


class LogComparison(SessionService):
    """Compares logs in memory with the store, and takes back to it those that have lost something."""

    def __init__(self, parts: SessionParts) -> None:
        self._logs = parts.logs
        self._access = parts.access
        self._reader = parts.reader
        self._shared = parts.shared
        self._subscriptions = parts.subscriptions
        self._begun = 0
        # Logs of whose losses a request has told by its error.
        self._told: WeakSet[SessionLog] = WeakSet()
        parts.logs.compare = self.compare
        parts.access.on_reverted(self._begin, self._refusal)

    async def compare(self, log: SessionLog) -> None:
        """See to a log before it is used.

        Raises:
            EventsLostError: it has lost something, and nothing has ended that tells so.
            StoreError: the store cannot be read, or written.
        """
        lost = await self._loss(log)
        if lost is not None and not await self._take_back(log, lost):
            raise lost

    def _begin(self) -> None:
        """The store has gone back: have logs compared before they are used again."""
        self._begun += 1
        for log in self._logs.all_in_memory():
            log.is_unchecked = log.is_unchecked or log.key not in self._logs.creating
        self._shared.note_reverted()

    async def _refusal(self, key: SessionKey) -> EventsLostError | None:
        """The loss of a session that is about to be written to; its request fails by that. Raises StoreError."""
        log = self._logs.in_memory(key)
        lost = await self._loss(log) if log is not None and log.is_unchecked else None
        if log is not None and lost is not None:
            self._told.add(log)
        return lost

    async def _loss(self, log: SessionLog) -> EventsLostError | None:
        """The loss of a log. One that has lost nothing needs no comparison any more. Raises StoreError."""
        begun = self._begun
        reading = self._shared.reading(log.key.app, (log.key.user,), again=True)
        stored = await self._reader.session(log.key, shared=reading)
        newest = await self._reader.at(log.key, log.committed_seq)
        assert stored.shared is not None
        self._shared.as_read(reading, stored.shared)
        lost = what_is_lost(_known(log), self._mark(stored, newest.raw if newest is not None else None))
        if not lost and begun == self._begun:
            log.is_unchecked = False
        return EventsLostError(log.key.session, lost) if lost else None

    async def _take_back(self, log: SessionLog, error: EventsLostError) -> bool:
        """End what goes on in a log that has lost something, and have its next reader begin anew.

        Returns whether the error was told with what has ended. Raises StoreError.
        """
        logger.error("%s", error)
        commits, key = self._access.commits, log.key
        commits.refuse(key, error)
        is_told = self._end_all(log, failure(error), error)
        commits.clear_failure(key)
        stored = await self._reader.session(key, shared=None)
        log.is_unchecked = False
        log.mark_stale()
        if stored.row is not None:
            try:
                await commits.submit(key, self._new_generation(log, stored.row, stored.running, failure(error)))
            except BaseException:
                log.is_unchecked = True
                raise
        is_told = is_told or log in self._told
        self._told.discard(log)
        return is_told

    def _end_all(self, log: SessionLog, failed: Failed, error: Exception) -> bool:
        """End, in memory, all turns of a session that has lost events, and the following of it.

        What agents still send for the open turn is refused, as for any turn that has ended. Returns whether there was any turn.
        """
        turn, waiters = log.turn, list(log.queue)
        for waiter in waiters:
            log.queue.remove(waiter, error)
            self._subscriptions.publish_end(log.key, waiter.invocation_id, failed)
        # The request that is opening a turn fails with its write, and ends the turn itself.
        if turn is not None and not log.is_opening:
            self._subscriptions.publish_end(log.key, turn.row.invocation_id, failed, turn.row.opened_seq)
            log.turn = None
            log.queue.start_next()
        self._subscriptions.forget_answers(log.key)
        self._subscriptions.publish_end(log.key, WHOLE_SESSION, failed)
        return turn is not None or bool(waiters)

    def _new_generation(self, log: SessionLog, row: SessionRow, running: TurnRow | None, failed: Failed) -> list[Write]:
        """Writes after which the log has a generation that it never had, and no open turn."""
        # Hides nothing: a rewind that is only counted.
        writes: list[Write] = [HideEvents(row.key, 1, 0)] * (max(log.rewinds - row.rewinds, 0) + 1)
        if running is not None:
            ended_s = now_s()
            ended = msgspec.structs.replace(
                running,
                status="failed",
                outcome=encode(failed),
                temp=self._reader.turn_of(running).checkpoint(is_over=True),
                last_seq=row.head_seq,
                ended_s=ended_s,
                usage=b"",
            )
            writes.append(PutTurn(row.key, ended, ended_s))
        return writes

    def _mark(self, stored: StoredSession, raw: bytes | None) -> LogMark | None:
        row, running = stored.row, stored.running
        if row is None:
            return None
        is_over = running is None or self._access.pending_ends.has(row.key, running.invocation_id, running.epoch)
        return LogMark(row.created_s, row.rewinds, row.head_seq, raw, "" if running is None or is_over else running.invocation_id)


def _known(log: SessionLog) -> LogMark:
    """The mark of a log: how far it is on disk, as far as is known."""
    newest = log.events_after(log.committed_seq - 1)
    raw = newest[-1].raw if newest else None
    return LogMark(log.created_s, log.rewinds, log.committed_seq, raw, "" if log.is_opening else log.open_id())
