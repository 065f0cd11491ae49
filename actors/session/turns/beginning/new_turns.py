"""What is stored, kept in memory and replied when a turn begins, and how that is undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.errors import StoreConflictError, StoreError
from actors.interfaces.records import AdvanceSchedule, TurnRow, Write
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import now_s
from actors.rules.checks.state import only_temp
from actors.rules.recovery.failures import failure
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.turns.opening_request import OpeningRequest
from actors.session.turns.parts import SessionParts


class NewTurns:
    """Begins turns in sessions that are free. Its methods wait for nothing."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    def new_turn(self, request: OpeningRequest) -> SessionTurn:
        """The turn that a request begins."""
        message, log = request.message, request.log
        seq = log.head_seq + 1
        row = TurnRow(
            invocation_id=message.invocation_id,
            status="running",
            epoch=message.epoch,
            first_seq=seq,
            opened_seq=seq,
            last_seq=seq,
            begun_s=now_s(),
            version=self._parts.versions.of_new(log),
        )
        turn = SessionTurn(row, message.config, message.runner, traceparent=message.traceparent, opened_s=row.begun_s)
        turn.begin_time()
        return turn

    def admitted(self, request: OpeningRequest, turn: SessionTurn) -> tuple[Sequence[Write], Callable[[], None]]:
        """Check the user's event, and open the turn. Returns what is stored beside the event, and what is called when it is."""
        message, log = request.message, request.log
        temp = only_temp(message.state_delta) if message.state_delta else None
        self._parts.admission.event(log, message.event, request.event)
        if temp:
            self._parts.admission.temp(turn.temp, temp)
            turn.temp.update(temp)
        log.turn = turn
        self._parts.access.pending_ends.forget_attempt(log.key, message.invocation_id, turn.row.epoch)
        writes: list[Write] = [log.put_turn(turn.record())]
        if message.due is not None:
            # The schedule goes on in the step in which its turn begins.
            writes.append(AdvanceSchedule(message.key, message.due))

        def opened() -> None:
            self._parts.access.pending_ends.forget_ends(log.key, message.invocation_id, turn.row.epoch)
            # What its agents say is shown after this, so the subscriber misses nothing; nor does it hear of a turn that is not
            # stored.
            self._parts.subscriptions.add(message.subscriber, log.key, message.invocation_id, turn.row.opened_seq)
            self._parts.counts["turns"] += 1
            log.queue.reject_interrupter()
            if message.due is not None:
                self._parts.due_times.note_begun(message.due)

        return writes, opened

    def begun(self, log: SessionLog, turn: SessionTurn, before: Sequence[p.StoredEvent]) -> p.TurnBegun:
        """The reply."""
        return p.TurnBegun(
            epoch=turn.row.epoch,
            seq=turn.row.opened_seq,
            generation=log.generation,
            authors=self._parts.deciding(log.authors(), turn.row.version),
            state=encode(log.merged_state(temp=True)),
            traceparent=turn.traceparent,
            before=before,
            version=turn.row.version,
        )

    def let_go(self, request: OpeningRequest, error: BaseException) -> None:
        """The turn could not begin: tell its subscribers, and let the next turn begin."""
        message, log = request.message, request.log
        # With its arguments, so that every driver raises the error itself: no agent has failed.
        told: p.AnyOutcome = failure(error)
        if isinstance(error, StoreError) and not isinstance(error, StoreConflictError) and log.turn is not None:
            # It may have begun in the store: a commit that is made again since its outcome was not known may fail for good.
            self._parts.store_end_later(log, log.turn.ended("", told), is_doubtful=True)
        elif request.before is not None and request.before.outcome:
            # Only the answer is refused: the turn is as it was.
            told = p.decode_outcome(request.before.outcome)
        log.turn = None
        log.queue.start_next()
        self._parts.subscriptions.publish_end(message.key, message.invocation_id, told)
