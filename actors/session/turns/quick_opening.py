"""Turns that begin without a task: only the store has to be waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from actors.actor import OwedReply
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.refs.keyed_locks import KeyedLocks
from actors.session.log.event_scan import scan
from actors.session.log.session_log import SessionLog
from actors.session.turns.opening_request import NewTurns, OpeningRequest
from actors.session.turns.parts import SessionParts


class QuickOpener:
    """Takes OpenTurn where a new turn begins in a session that is free: one that is in memory, or that is read, or created.

    Args:
        new_turns: begins them.
        in_order: of sessions whose requests are being decided one by one.
        open_turn: opens what cannot begin so, in a task.
    """

    def __init__(
        self,
        parts: SessionParts,
        new_turns: NewTurns,
        in_order: KeyedLocks[SessionKey],
        open_turn: Callable[[OpeningRequest], Awaitable[p.OpenTurnReply]],
    ) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._new_turns = new_turns
        self._in_order = in_order
        self._open_turn = open_turn

    def at_hand(self, message: p.OpenTurn) -> SessionLog | None:
        """The session of a message that asks for a new turn, where nothing has to be asked of the store, nor waited for."""
        return self._logs.at_hand(message.key) if self._is_new(message) else None

    def open_turn_quickly(self, message: p.OpenTurn, owed: OwedReply) -> bool:
        """Begin a turn in a session that is free, where only the store has to be waited for: see QuickHandler."""
        if message.answers or message.awaits or message.takes_words or message.state_delta or not self._is_new(message):
            return False
        log = self._logs.at_hand(message.key)
        if log is not None and not self._is_free(log):
            return False
        event = scan(message.event)
        if event.actions.state_delta or self._parts.runners.refusal(message.runner, message.term) is not None:
            return False
        request = OpeningRequest(message, event)
        if log is None:
            return message.auto_create and self._seek(request, owed)
        request.log = log
        self._begin(request, owed)
        return True

    def _is_new(self, message: p.OpenTurn) -> bool:
        """Whether a message asks for a new turn, and nothing has to be waited for before the session is looked for."""
        key = message.key
        is_known = message.repeatable or message.due is not None
        is_owing = self._parts.access.pending_ends.owes_end(key)
        return not (is_known or is_owing or self._in_order.is_held(key) or self._parts.user_holds.has(key))

    def _is_free(self, log: SessionLog) -> bool:
        """Whether a new turn begins by the table, in a session of which nothing has to be read."""
        if log.turn is not None or log.queue.is_taken:
            return False
        # One that is new has the states that it shares as they are now.
        return log.creation is not None or not self._parts.shared.may_be_behind(log.key)

    def _seek(self, request: OpeningRequest, owed: OwedReply) -> bool:
        """Begin the turn once the store has said what it has of the session. Later requests of it wait for this one."""
        key = request.message.key
        request.place = place = self._in_order.take(key)
        if place is None:
            return False
        if self._logs.seek(key, partial(self._sought, request, owed)):
            return True
        place.release()
        return False

    def _sought(self, request: OpeningRequest, owed: OwedReply, log: SessionLog | None, error: Exception | None) -> None:
        """In the step in which the store was read."""
        message, parts = request.message, self._parts
        try:
            if error is not None:
                raise error
            is_held = parts.user_holds.has(message.key) or parts.runners.refusal(message.runner, message.term) is not None
            if log is None or is_held or not self._is_free(log):
                # It keeps its place before the later ones.
                owed.take_task(self._open_later(request))
                return
            request.log = log
            if log.creation is not None:
                parts.admission.first(message, log.app_state, log.user_state)
            self._begin(request, owed)
        except BaseException as raised:
            owed.fail(raised)
        if request.place is not None:
            request.place.release()

    async def _open_later(self, request: OpeningRequest) -> p.OpenTurnReply:
        async with self._parts.user_holds.entered(request.message.key):
            return await self._open_turn(request)

    def _begin(self, request: OpeningRequest, owed: OwedReply) -> None:
        message, log, new_turns = request.message, request.log, self._new_turns

        def tell(error: Exception | None) -> None:
            if error is None:
                owed.give(begun)
            else:
                new_turns.let_go(request, error)
                owed.fail(error)

        request.holds_session = log.queue.is_taken = True
        try:
            turn = new_turns.new_turn(request)
            writes, opened = new_turns.admitted(request, turn)
            begun = new_turns.begun(log, turn, log.unheard())
            self._parts.writer.hand_in(log, [(message.event, request.event)], writes, tell, opened)
        except BaseException as error:
            new_turns.let_go(request, error)
            raise
