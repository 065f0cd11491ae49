"""Defects of the Runner: which runs it repeats, stops and fences, and what it does about replies that were lost or are late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import msgspec

from actors.messages import protocol as p
from actors.messages.session import TurnKey
from actors.refs.session import SessionRef
from actors.rules.routing import turn_life
from actors.runner.dispatch.invoker import Invoker
from actors.runner.running.running_turn import RunningTurn
from actors.runner.running.runs import Run
from actors.runner.running.turn_task import TurnTask
from actors.runner.turns.closer import TurnCloser
from actors.runner.turns.recovery import TurnResumer
from actors.runner.turns.table import TurnTable
from actors.runner.turns.tasks import TurnTasks


def turns_begin_again_in_the_same_epoch() -> AbstractContextManager[object]:
    """A turn that has begun, and was lost with the Session actor before it was stored, begins once more as if it had not."""
    asked: Any = SessionRef._ask

    async def sent_again(self: SessionRef, message: Any, reply_type: Any, *, once: bool = False, early: Any = None) -> Any:
        return await asked(self, message, reply_type, early=early)

    return mock.patch.object(SessionRef, "_ask", sent_again)


def lost_openings_are_repeated_as_new_ones() -> AbstractContextManager[object]:
    """A Runner asks again as if its turn could not be there, and over."""
    open_turn: Any = SessionRef.open_turn

    async def as_new(self: SessionRef, message: p.OpenTurn, *early: Any) -> p.OpenTurnReply:
        known = message.repeatable and message.epoch == 1
        reply: p.OpenTurnReply = await open_turn(self, msgspec.structs.replace(message, repeatable=known), *early)
        return reply

    return mock.patch.object(SessionRef, "open_turn", as_new)


def lost_runs_begin_anew() -> AbstractContextManager[object]:
    """A run that was lost does not go on from what the log has of it."""
    message: Any = Invoker._message

    def anew(self: Invoker, turn: RunningTurn, run: Run, order: Any) -> p.Invoke:
        made: p.Invoke = message(self, turn, run, order)
        return msgspec.structs.replace(made, resume=False, since=0, progress={}, noted_seq=0)

    return mock.patch.object(Invoker, "_message", anew)


def children_of_lost_runs_are_not_stopped() -> AbstractContextManager[object]:
    """What a lost run has asked for is fenced, and works on."""
    abandon: Any = Invoker._abandon

    async def nothing(turn: RunningTurn, runs: Sequence[Run]) -> None:
        """Stop no run."""

    async def lenient(self: Invoker, turn: RunningTurn, run: Run) -> None:
        with mock.patch.object(self, "stop", nothing):
            await abandon(self, turn, run)

    return mock.patch.object(Invoker, "_abandon", lenient)


def late_replies_replace_newer_epochs() -> AbstractContextManager[object]:
    """A reply that opens a turn in an older epoch than it runs in begins it once more."""

    def add(self: TurnTable, running: RunningTurn) -> bool:
        self._entry(running.key).running = running
        return True

    return mock.patch.object(TurnTable, "add", add)


def turns_that_end_are_interrupted() -> AbstractContextManager[object]:
    """A cancel interrupts a turn also when how it ends is decided, and is being stored."""
    table: Any = {**turn_life.TABLE, ("ending", "cancelled"): "cancelled"}
    return mock.patch.object(turn_life, "_AFTER", turn_life.lives_after(table))


def what_a_replaced_turn_had_heard_is_forgotten() -> AbstractContextManager[object]:
    """A turn that was cancelled, and goes on in another epoch, is cancelled no more."""

    def forgetful(self: TurnTask, before: TurnTask) -> None:
        before.give_up()

    return mock.patch.object(TurnTask, "replace", forgetful)


def turns_that_were_not_stored_run_on() -> AbstractContextManager[object]:
    """What has begun of a turn whose message cannot be stored is not stopped."""

    def nothing(self: TurnTask) -> None:
        """Stop nothing."""

    return mock.patch.object(TurnTask, "give_up", nothing)


def transfers_are_not_followed() -> AbstractContextManager[object]:
    """A resumed turn begins with the agent that was selected, not with the one to which the log has it transferred."""

    def never(self: RunningTurn, run: Run) -> None:
        return None

    return mock.patch.object(RunningTurn, "recorded_transfer", never)


def turns_of_lost_runners_stay_open() -> AbstractContextManager[object]:
    """A Runner that was started again takes up no turn."""

    async def nothing(self: TurnResumer, session: SessionRef) -> None:
        """Ask for no turn."""

    return mock.patch.object(TurnResumer, "_recover_from", nothing)


def ends_that_failed_are_not_sent_again() -> AbstractContextManager[object]:
    """The Runner leaves the end of a turn that could not be stored to the Session actor alone."""

    async def nothing(self: TurnCloser) -> None:
        """Send nothing."""

    return mock.patch.object(TurnCloser, "_send_again", nothing)


def turns_being_closed_are_not_known() -> AbstractContextManager[object]:
    """A cancel that comes while a turn is being closed takes it for one that has ended."""

    @contextmanager
    def nothing(self: TurnTable, running: RunningTurn) -> Iterator[None]:
        entry = self._entry(running.key)
        entry.running = None if entry.running is running else entry.running
        self._drop(running.key, entry)
        yield

    return mock.patch.object(TurnTable, "closing", nothing)


def turns_being_closed_are_resumed() -> AbstractContextManager[object]:
    """A turn whose end is on its way is resumed for a new Session actor, which does not know that it has ended."""

    async def nothing(self: TurnTasks, key: TurnKey) -> None:
        """Wait for nothing."""

    return mock.patch.object(TurnTasks, "settle", nothing)
