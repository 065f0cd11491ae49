"""A request to open a turn, on its way, and the facts that decide about it."""

from __future__ import annotations

from dataclasses import replace

from actors.errors import TurnStateError
from actors.interfaces.records import TurnRow
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.refs.keyed_locks import Locked
from actors.rules.routing.answering import is_taken
from actors.rules.routing.opening import Free, Kept, Open, OpeningFacts, SessionUse, Taken
from actors.session.log.event_scan import EventScan
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.turns.lookup import KnownTurn


class OpeningRequest:
    """A request to open a turn, on its way.

    Args:
        message: asks for it.
        event: of `message.event`.

    Attributes:
        log: the session.
        has_waited: it was in the queue, where subscribers may have found the turn.
        known_seq: the log up to here was settled when the request came: see `rules.routing.answering`.
        is_at_hand: nothing was waited for since the session was looked up last.
        holds_session: the session is taken for this request, which has to let the next one begin when it fails.
        place: its place among the requests of the session, if it has one before it is decided about.
        before: the record of the turn that it continues with an answer, as it was before.
    """

    log: SessionLog
    has_waited = is_at_hand = holds_session = False
    known_seq: int | None = None
    place: Locked[SessionKey] | None = None
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
        facts = turn.facts_of(call_id)
        call = replace(facts, is_waiting=facts.is_waiting and is_paused)
        if not is_taken(call, only_waiting=message.only_waiting, known_seq=request.known_seq or 0):
            why = "it has been answered" if call.answered_seq else "its turn does not wait for it"
            waiting = ", ".join(repr(each) for each in turn.waiting_calls if is_paused) or "none"
            raise TurnStateError(
                f"call {call_id!r} waits for no answer in session {message.key.session!r}: {why}. Calls that wait: {waiting}"
            )
