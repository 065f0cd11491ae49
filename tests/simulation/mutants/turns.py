"""Defects of the Session actor in turns: who may write, which request begins, joins or is refused, and what a loss leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

import msgspec

from actors.errors import FencedError, StoreError
from actors.messages import protocol as p
from actors.messages.protocol.base import TurnRef
from actors.messages.session import SessionKey
from actors.session.log.event_scan import EventScan, scan
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.log.turn_queue import TurnQueue, Waiter
from actors.session.subscribers.subscriptions import Subscriptions
from actors.session.turns import opening_request, recovery, writing
from actors.session.turns.beginning.new_turns import NewTurns
from actors.session.turns.ending import TurnEnder
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.opening import TurnOpener
from actors.session.turns.recovery import TurnRecovery
from actors.session.turns.runners import Runners
from actors.session.turns.writing import TurnWriter


def epochs_do_not_fence() -> AbstractContextManager[object]:
    """A write of an older epoch is taken."""

    def is_current(self: SessionLog, turn: TurnRef) -> bool:
        open_turn = self.turn
        return open_turn is not None and not open_turn.is_ending and open_turn.row.invocation_id == turn.invocation_id

    return mock.patch.object(SessionLog, "is_current", is_current)


def abandoned_runs_write_on() -> AbstractContextManager[object]:
    """Abandoned runs are not fenced."""
    abandon: Any = TurnRecovery.abandon_runs

    async def lenient(self: TurnRecovery, message: p.AbandonRuns) -> p.TurnProgress:
        progress: p.TurnProgress = await abandon(self, p.AbandonRuns(turn=message.turn, lost=(), notes=message.notes))
        return progress

    return mock.patch.object(TurnRecovery, "abandon_runs", lenient)


def lost_runners_keep_their_place_in_line() -> AbstractContextManager[object]:
    """A request joins the turn that a lost Runner had put in line."""

    def nothing(self: TurnQueue, which: Callable[[Waiter], bool]) -> None:
        """Send nothing back."""

    return mock.patch.object(TurnQueue, "send_back", nothing)


def lost_runners_are_listened_to() -> AbstractContextManager[object]:
    """What a lost Runner has sent takes turns from its successor when it comes at last."""

    def never(self: Runners, runner: str) -> None:
        return None

    return mock.patch.object(Runners, "refusal", never)


def second_answers_are_taken() -> AbstractContextManager[object]:
    """Whether a call waits is looked at by the driver only, when it sends the answer."""
    return mock.patch.object(opening_request, "is_taken", return_value=True)


def losses_count_by_runner() -> AbstractContextManager[object]:
    """A Runner that takes a turn up counts the losses of its runs anew."""
    record: Any = SessionTurn.record

    def forgetful(self: SessionTurn) -> Any:
        losses, self.losses = self.losses, {}
        try:
            return record(self)
        finally:
            self.losses = losses

    return mock.patch.object(SessionTurn, "record", forgetful)


def ending_turns_take_events() -> AbstractContextManager[object]:
    """A turn takes events while its end is on the way to the disk."""

    def is_current(self: SessionLog, turn: TurnRef) -> bool:
        return self.turn is not None and self.generation == turn.generation and self.turn.is_written_by(turn)

    patches = ExitStack()
    patches.enter_context(ends_under_way_count_as_stored())
    patches.enter_context(mock.patch.object(SessionLog, "is_current", is_current))
    return patches


def epochs_are_not_raised() -> AbstractContextManager[object]:
    """A turn that another Runner takes up keeps its epoch."""
    resume: Any = TurnRecovery.resume_turn

    async def in_the_same(self: TurnRecovery, message: p.ResumeTurn) -> p.ResumeTurnReply:
        reply: p.ResumeTurnReply = await resume(self, message)
        log = self._logs.in_memory(message.key)
        if not isinstance(reply, p.TurnResumed) or log is None or log.turn is None:
            return reply
        log.turn.row = msgspec.structs.replace(log.turn.row, epoch=reply.epoch - 1)
        return msgspec.structs.replace(reply, epoch=reply.epoch - 1)

    return mock.patch.object(TurnRecovery, "resume_turn", in_the_same)


def lost_runs_stay_lost_in_the_next_epoch() -> AbstractContextManager[object]:
    """The numbers of lost runs are refused in the next epoch, where other runs have them."""
    resume: Any = TurnRecovery.resume_turn

    async def remembering(self: TurnRecovery, message: p.ResumeTurn) -> p.ResumeTurnReply:
        log = self._logs.in_memory(message.key)
        turn = log.turn if log is not None else None
        lost = set(turn.lost) if turn is not None else set()
        reply: p.ResumeTurnReply = await resume(self, message)
        if turn is not None:
            turn.lost |= lost
        return reply

    return mock.patch.object(TurnRecovery, "resume_turn", remembering)


@contextmanager
def _without_flush(access: Any) -> Iterator[None]:
    async def nothing() -> None:
        """Wait for nothing."""

    with mock.patch.object(access.commits, "flush", nothing):
        yield


def runs_are_abandoned_before_their_events_are_stored() -> AbstractContextManager[object]:
    """How far an abandoned run was is told without what is on its way to the disk."""
    abandon: Any = TurnRecovery.abandon_runs

    async def hasty(self: TurnRecovery, message: p.AbandonRuns) -> p.TurnProgress:
        with _without_flush(self._parts.access):
            progress: p.TurnProgress = await abandon(self, message)
        return progress

    return mock.patch.object(TurnRecovery, "abandon_runs", hasty)


def events_sent_again_are_acknowledged_early() -> AbstractContextManager[object]:
    """An event that is sent again is acknowledged while the first request is on its way to the disk."""
    append: Any = TurnWriter.append

    async def hasty(self: TurnWriter, message: p.Append) -> p.Appended:
        with _without_flush(self._access):
            appended: p.Appended = await append(self, message)
        return appended

    return mock.patch.object(TurnWriter, "append", hasty)


@contextmanager
def notes_of_lost_runs_are_taken() -> Iterator[None]:
    """A note of a supervisor that was abandoned is stored, since the child of another one brings it."""

    def lenient(turn: SessionTurn, notes: Sequence[p.Note]) -> list[tuple[bytes, EventScan]]:
        return [(note.raw, event) for note in notes if (event := scan(note.raw)).id not in turn.stored]

    with ExitStack() as patches:
        for module in (recovery, writing):
            patches.enter_context(mock.patch.object(module, "missing_notes", lenient))
        yield


def repeated_requests_begin_again() -> AbstractContextManager[object]:
    """A turn that is asked for again begins once more."""

    async def never(self: TurnOpener, request: Any) -> None:
        return None

    return mock.patch.object(TurnOpener, "_known_turn", never)


def repeated_answers_are_new() -> AbstractContextManager[object]:
    """An answer that is sent again, since its reply was lost, counts as another one."""
    known_turn: Any = TurnOpener._known_turn

    async def not_of_answers(self: TurnOpener, request: Any) -> Any:
        return None if request.message.answers else await known_turn(self, request)

    return mock.patch.object(TurnOpener, "_known_turn", not_of_answers)


def cancelled_turns_leave_calls_open() -> AbstractContextManager[object]:
    """The calls of a cancelled turn get no response."""

    async def nothing(self: TurnEnder, log: SessionLog, turn: SessionTurn) -> None:
        """Answer no call."""

    return mock.patch.object(TurnEnder, "_answer_open_calls", nothing)


def turns_that_cannot_begin_keep_the_session() -> AbstractContextManager[object]:
    """When a turn cannot begin, the next one in line waits for ever."""
    let_go: Any = NewTurns.let_go

    def keeping(self: NewTurns, request: Any, error: BaseException) -> None:
        with mock.patch.object(request.log.queue, "start_next"):
            let_go(self, request, error)

    return mock.patch.object(NewTurns, "let_go", keeping)


def ends_under_way_count_as_stored() -> AbstractContextManager[object]:
    """A cancel does not wait for the end of a turn that is on its way to the disk."""

    async def at_once(self: TurnLookup, key: SessionKey, invocation_id: str) -> None:
        """Wait for nothing."""

    return mock.patch.object(TurnLookup, "settled", at_once)


def ends_that_are_owed_count_as_stored() -> AbstractContextManager[object]:
    """While the Session actor owes the end of a turn to the store, one that is sent again is refused as over."""
    close_turn: Any = TurnEnder.close_turn

    async def fenced(self: TurnEnder, message: p.CloseTurn) -> p.Ack:
        turn = message.turn
        if self._parts.access.pending_ends.has(turn.key, turn.invocation_id, turn.epoch):
            raise FencedError(turn.invocation_id, turn.epoch)
        ack: p.Ack = await close_turn(self, message)
        return ack

    return mock.patch.object(TurnEnder, "close_turn", fenced)


def turns_of_unread_logs_are_over() -> AbstractContextManager[object]:
    """The end of a turn is refused as that of one that is over when the log cannot be read."""
    current: Any = TurnLookup.current

    async def fenced(self: TurnLookup, turn: TurnRef) -> tuple[SessionLog, SessionTurn]:
        try:
            found: tuple[SessionLog, SessionTurn] = await current(self, turn)
            return found
        except StoreError:
            return self.current_in_memory(turn)

    return mock.patch.object(TurnLookup, "current", fenced)


def turns_that_were_not_resumed_count_as_running() -> AbstractContextManager[object]:
    """A Runner that could not resume a turn, since the store took nothing, hears of it no more."""
    resume_turn: Any = TurnRecovery.resume_turn

    async def kept(self: TurnRecovery, message: p.ResumeTurn) -> p.ResumeTurnReply:
        try:
            reply: p.ResumeTurnReply = await resume_turn(self, message)
        except StoreError:
            log = self._logs.in_memory(message.key)
            if log is not None and log.open_id() == message.invocation_id and log.turn is not None:
                log.turn.runner = message.runner
            raise
        return reply

    return mock.patch.object(TurnRecovery, "resume_turn", kept)


def writes_of_unknown_outcome_are_not_shown() -> AbstractContextManager[object]:
    """Subscribers do not get what the store has of a commit that counted as failed."""

    def nothing(self: Subscriptions, key: SessionKey, invocation_id: str, head_seq: int) -> None:
        """Show nothing."""

    return mock.patch.object(Subscriptions, "expect", nothing)


def cancels_of_lost_turns_do_nothing() -> AbstractContextManager[object]:
    """The cancel of a turn that a lost Runner has left open is acknowledged, and the next Runner goes on with the turn."""
    cancel_turn: Any = TurnEnder.cancel_turn

    async def lenient(self: TurnEnder, message: p.CancelTurn) -> p.Ack:
        log = self._logs.in_memory(message.key)
        if log is not None and log.turn is not None and log.turn.runner and log.open_id() == message.invocation_id:
            return p.Ack()
        reply: p.Ack = await cancel_turn(self, message)
        return reply

    return mock.patch.object(TurnEnder, "cancel_turn", lenient)
