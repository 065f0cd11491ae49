"""A request to open a turn: the facts that decide about it, what is stored when the turn begins, and how it is undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from actors.errors import StoreConflictError, StoreError, TurnStateError
from actors.interfaces.records import AdvanceSchedule, TurnRow, Write
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import now_s
from actors.rules.checks.state import only_temp
from actors.rules.recovery.failures import failure
from actors.rules.routing.answering import is_taken
from actors.rules.routing.opening import Free, Kept, Open, OpeningFacts, SessionUse, Taken
from actors.session.log.event_scan import EventScan
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.turns.lookup import KnownTurn
from actors.session.turns.parts import SessionParts


class OpeningRequest:
    """A request to open a turn, on its way.

    Args:
        message: asks for it.
        event: of `message.event`.

    Attributes:
        log: the session.
        has_waited: it was in the queue, where subscribers may have found the turn.
        known_seq: the log up to here was settled when the request came: see `rules.routing.answering`.
        holds_session: the session is taken for this request, which has to let the next one begin when it fails.
        before: the record of the turn that it continues with an answer, as it was before.
    """

    log: SessionLog
    has_waited = holds_session = False
    known_seq: int | None = None
    before: TurnRow | None = None

    def __init__(self, message: p.OpenTurn, event: EventScan) -> None:
        self.message = message
        self.event = event

    def facts(self, known: KnownTurn | None) -> OpeningFacts:
        """The facts that decide about the request."""
        return OpeningFacts(
            session=self._session_use(),
            known_turn=known.invocation_id if known is not None else "",
            on_concurrent_turn=self.message.config.on_concurrent_turn,
            interrupting=self.message.interrupting,
        )

    def _session_use(self) -> SessionUse:
        turn = self.log.turn
        if turn is not None:
            return Open(
                turn.row.invocation_id,
                # One whose end is being stored cannot be resumed, and needs not: what waits for it begins then.
                is_live=turn.is_ending or turn.runner == self.message.runner,
                began_with_event=turn.stored.get(self.event.id) == turn.row.opened_seq,
            )
        if self.holds_session:
            return Kept()
        return Taken() if self.log.queue.is_taken else Free()


def check_answers(request: OpeningRequest, turn: SessionTurn) -> None:
    """Check that the calls take the answers of the message, now that no other answer comes before it. Raises TurnStateError."""
    message = request.message
    is_paused = turn.row.status == "paused"
    for call_id in message.answers:
        facts = turn.calls.facts_of(call_id)
        call = replace(facts, is_waiting=facts.is_waiting and is_paused)
        if not is_taken(call, only_waiting=message.only_waiting, known_seq=request.known_seq or 0):
            why = "it has been answered" if call.answered_seq else "its turn does not wait for it"
            waiting = ", ".join(repr(each) for each in turn.calls.waiting if is_paused) or "none"
            raise TurnStateError(
                f"call {call_id!r} waits for no answer in session {message.key.session!r}: {why}. Calls that wait: {waiting}"
            )


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
        turn = SessionTurn.new(row, message.config, self._parts.reader.extensions)
        turn.runner, turn.traceparent = message.runner, message.traceparent
        turn.begin()
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
