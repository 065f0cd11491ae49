"""Defects that the simulation has to find: the logic as it was, or as it would be without one of its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import msgspec

from actors.agent.event_writer import EventWriter
from actors.agent.session_reader import SessionReader
from actors.agent.session_view import SessionView
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.protocol.base import TurnRef
from actors.refs.session import SessionRef
from actors.rules.prompt.history import History
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import OpenTurn
from actors.session.log.session_log import SessionLog
from actors.session.log.turn_queue import TurnQueue, Waiter
from actors.session.subscribers.outbox import Outbox
from actors.session.subscribers.subscriptions import Subscriptions
from actors.session.turns import opening
from actors.session.turns.recovery import TurnRecovery
from actors.session.turns.runners import Runners
from runtime.driver.subscriber import Subscriber
from runtime.stores.sql.writers import Claim

Mutant = Callable[[], AbstractContextManager[object]]


def notes_travel_alone() -> AbstractContextManager[object]:
    """A supervisor's note and its child set out at the same time, and nothing keeps their order."""
    return mock.patch.object(EventWriter, "notes_with", return_value=())


def epochs_do_not_fence() -> AbstractContextManager[object]:
    """A write of an older epoch is taken."""

    def is_current(self: SessionLog, turn: TurnRef) -> bool:
        open_turn = self.turn
        return open_turn is not None and not open_turn.is_ending and open_turn.row.invocation_id == turn.invocation_id

    return mock.patch.object(SessionLog, "is_current", is_current)


def events_are_not_recognised() -> AbstractContextManager[object]:
    """An event that is sent again is not known by its id."""
    note: Any = OpenTurn.note

    def forgetful(self: OpenTurn, event: Any, seq: int) -> None:
        note(self, event, seq)
        if event.author != "user":
            del self.stored[event.id]

    return mock.patch.object(OpenTurn, "note", forgetful)


def abandoned_runs_write_on() -> AbstractContextManager[object]:
    """Abandoned runs are not fenced."""
    abandon: Any = TurnRecovery.abandon_runs

    async def lenient(self: TurnRecovery, message: p.AbandonRuns) -> p.TurnProgress:
        progress: p.TurnProgress = await abandon(self, p.AbandonRuns(turn=message.turn, lost=(), notes=message.notes))
        return progress

    return mock.patch.object(TurnRecovery, "abandon_runs", lenient)


def polls_acknowledge_too_early() -> AbstractContextManager[object]:
    """News is dropped when it is sent, not when it is acknowledged."""
    poll: Any = Outbox.poll

    async def hasty(self: Outbox, ack: int) -> p.News:
        news: p.News = await poll(self, self._last.number)
        return news

    return mock.patch.object(Outbox, "poll", hasty)


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


def views_take_events_twice() -> AbstractContextManager[object]:
    """An agent's view of a session takes in what another run has taken in already."""
    take_in: Any = SessionView.take_in

    def forgetful(self: SessionView, fetched: p.Fetched) -> None:
        self.seq = 0
        take_in(self, fetched)

    return mock.patch.object(SessionView, "take_in", forgetful)


@contextmanager
def experts_are_asked_anew() -> Iterator[None]:
    """A repeated call of an agent as a tool does not find the run that it had begun."""

    async def never(self: SessionReader, branch: str, content: Content) -> None:
        return None

    with mock.patch.object(SessionReader, "asked_before", never):
        yield


def joined_turns_are_not_sought() -> AbstractContextManager[object]:
    """A driver does not ask again for a turn that a restarted Session actor does not know."""

    async def never(self: Subscriber) -> None:
        """Nothing."""

    return mock.patch.object(Subscriber, "_seek", never)


@contextmanager
def a_yes_counts_for_later_runs() -> Iterator[None]:
    """A later run of an agent in the same turn acts upon the user's answer again."""
    replies: Any = History.user_replies

    def again(self: History, answered: Any) -> Any:
        found = replies(self, answered)
        ids = {call_id for call_id in answered if call_id}
        by_user = {each.id: each for entry in self._entries if entry.by_user for each in entry.responses}
        by_agent = {each.id: each for entry in self._entries if not entry.by_user for each in entry.responses}
        calls = [call for entry in self._entries if entry.content for call in entry.content.function_calls() if call.id in ids]
        return found or [type_of(call, by_user[call.id], by_agent.get(call.id)) for call in calls if call.id in by_user]

    from actors.rules.prompt.history import UserReply as type_of

    with mock.patch.object(History, "user_replies", again):
        yield


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


def writers_are_not_fenced() -> AbstractContextManager[object]:
    """A Session actor that was replaced commits what it was asked."""

    def lenient(self: Claim, connection: Any) -> None:
        """Look at nothing."""

    return mock.patch.object(Claim, "check", lenient)


def logs_are_read_while_a_message_is_stored() -> AbstractContextManager[object]:
    """An agent that has begun early reads a log without the message that it is to answer."""

    async def at_once(self: SessionLogs, log: SessionLog) -> None:
        """Wait for nothing."""

    return mock.patch.object(SessionLogs, "opened", at_once)


def dropped_turns_are_not_told() -> AbstractContextManager[object]:
    """Those that follow a turn in line do not hear that it was dropped with its Runner."""

    def nothing(self: Subscriptions, key: Any, invocation_id: str) -> None:
        """Tell no subscriber."""

    return mock.patch.object(Subscriptions, "publish_dropped", nothing)


def second_answers_are_taken() -> AbstractContextManager[object]:
    """Whether a call waits is looked at by the driver only, when it sends the answer."""
    return mock.patch.object(opening, "is_taken", return_value=True)


def losses_count_by_runner() -> AbstractContextManager[object]:
    """A Runner that takes a turn up counts the losses of its agents anew."""

    def forgetful(self: OpenTurn, losses: Mapping[str, int]) -> bool:
        return False

    return mock.patch.object(OpenTurn, "count_losses", forgetful)


SCENE_MUTANTS: Mapping[str, tuple[Mutant, str]] = {
    "dropped_turns_are_not_told": (
        dropped_turns_are_not_told,
        "test_a_driver_that_has_asked_for_the_same_turn_asks_again_and_the_turn_begins",
    ),
    "second_answers_are_taken": (
        second_answers_are_taken,
        "test_of_two_answers_in_line_behind_another_turn_the_first_is_taken",
    ),
    "losses_count_by_runner": (
        losses_count_by_runner,
        "test_the_third_loss_of_an_agent_fails_its_run_also_when_its_runner_and_the_session_actor_were_lost_in_between",
    ),
}
"""Each with the test in `test_scenes.py` that finds it: no seed plays these."""

UNIT_MUTANTS: Mapping[str, tuple[Mutant, str]] = {
    "lost_runners_keep_their_place_in_line": (
        lost_runners_keep_their_place_in_line,
        "test_a_request_of_the_next_runner_does_not_join_what_the_lost_one_had_in_line",
    ),
    "lost_runners_are_listened_to": (
        lost_runners_are_listened_to,
        "test_nothing_that_a_lost_runner_has_sent_does_anything_when_its_successor_has_announced_itself",
    ),
}
"""Each with the test of `tests/unit/session/test_turns_in_line.py` that finds it. No known seed does: a driver that has joined
such a turn asks again when it is dropped."""

MUTANTS: Mapping[str, tuple[Mutant, int]] = {
    "notes_travel_alone": (notes_travel_alone, 269),
    "epochs_do_not_fence": (epochs_do_not_fence, 238),
    "events_are_not_recognised": (events_are_not_recognised, 4),
    "abandoned_runs_write_on": (abandoned_runs_write_on, 491),
    "polls_acknowledge_too_early": (polls_acknowledge_too_early, 583),
    "views_take_events_twice": (views_take_events_twice, 1699),
    "experts_are_asked_anew": (experts_are_asked_anew, 1070),
    "joined_turns_are_not_sought": (joined_turns_are_not_sought, 2851),
    "a_yes_counts_for_later_runs": (a_yes_counts_for_later_runs, 720),
    "turns_begin_again_in_the_same_epoch": (turns_begin_again_in_the_same_epoch, 553),
    "lost_openings_are_repeated_as_new_ones": (lost_openings_are_repeated_as_new_ones, 6),
    "logs_are_read_while_a_message_is_stored": (logs_are_read_while_a_message_is_stored, 438),
}
"""Each with a seed that finds it."""
