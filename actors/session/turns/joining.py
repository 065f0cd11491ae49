"""Following turns that are there already."""

from __future__ import annotations

from actors.errors import InvocationNotFoundError, StoreConflictError
from actors.interfaces.records import TurnRow
from actors.messages import protocol as p
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.rules.recovery.failures import failure
from actors.session.log.session_log import SessionLog
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.parts import SessionParts


class TurnJoiner:
    """Answers Subscribe, and lets the subscribers of repeated requests follow the turn that is there."""

    def __init__(self, parts: SessionParts, lookup: TurnLookup) -> None:
        self._logs = parts.logs
        self._reader = parts.reader
        self._subscriptions = parts.subscriptions
        self._lookup = lookup

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
        log, row = await self._lookup.log_and_row(message.key, message.invocation_id)
        if row is None and not log.queue.has(message.invocation_id):
            raise InvocationNotFoundError(message.invocation_id, message.key.session)
        await self._lookup.refuse_other(log, message.invocation_id, row, message.fingerprint)
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


def _status(log: SessionLog, invocation_id: str) -> p.TurnStatus:
    if log.turn is not None and log.open_row(invocation_id) is not None:
        return "lost" if not log.turn.runner else "waiting" if log.is_opening else "running"
    return "waiting" if log.queue.has(invocation_id) else "ended"
