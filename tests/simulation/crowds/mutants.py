"""Defects of what happens when much is asked for at once: who may wait, and who comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

import msgspec

from actors.errors import OverloadedError
from actors.messages import protocol as p
from actors.messages.limits import Limits
from actors.messages.session import TurnKey
from actors.rules.capacity.backlog import Backlog
from actors.rules.capacity.fair_queue import FairQueue
from actors.rules.capacity.user_weights import weights
from actors.runner.turns import gate
from actors.runner.turns.admission import TurnAdmission
from actors.runner.turns.gate import GatePlace, TurnGate


def users_do_not_take_turns() -> AbstractContextManager[object]:
    """What was asked for first is opened first, whosoever it is."""
    add: Any = FairQueue.add

    def in_one_line(self: FairQueue[Any], item: Any, *_: object) -> None:
        add(self, item)

    return mock.patch.object(FairQueue, "add", in_one_line)


def sessions_do_not_take_turns() -> AbstractContextManager[object]:
    """Users take turns, and what one of them has asked for first is opened first."""
    add: Any = FairQueue.add

    def by_user(self: FairQueue[Any], item: Any, *owners: object) -> None:
        add(self, item, *owners[:1])

    return mock.patch.object(FairQueue, "add", by_user)


def one_more_waits_than_may() -> AbstractContextManager[object]:
    """The bounds of lines are one too high."""
    build: Any = Backlog.__init__

    def higher(self: Backlog, limits: Limits) -> None:
        names = ("max_waiting_session_turns", "max_waiting_user_turns", "max_waiting_turns")
        build(self, msgspec.structs.replace(limits, **{name: getattr(limits, name) + 1 for name in names}))

    return mock.patch.object(Backlog, "__init__", higher)


def turns_that_were_cancelled_stay_in_line() -> AbstractContextManager[object]:
    """A turn that is cancelled before it is opened counts on."""
    cancel, remove = TurnAdmission.cancel, Backlog.remove
    cancelled: set[TurnKey] = set()

    def noted(self: TurnAdmission, turn: TurnKey) -> None:
        if turn in self._backlog:
            cancelled.add(turn)
        cancel(self, turn)

    def unless_cancelled(self: Backlog, turn: TurnKey) -> None:
        if turn not in cancelled:
            remove(self, turn)

    patches = ExitStack()
    patches.enter_context(mock.patch.object(Backlog, "remove", unless_cancelled))
    patches.enter_context(mock.patch.object(TurnAdmission, "cancel", noted))
    return patches


def those_who_come_late_overtake() -> AbstractContextManager[object]:
    """A turn that comes when there is room is opened at once, before those that wait and were not let in yet."""
    enter: Any = TurnGate.enter_at_once

    def at_once(self: TurnGate, turn: TurnKey, now_s: float) -> GatePlace | None:
        if len(self._inside) <= self._at_once and self._waiting:
            return self._let_in(now_s)
        place: GatePlace | None = enter(self, turn, now_s)
        return place

    return mock.patch.object(TurnGate, "enter_at_once", at_once)


def turns_that_are_there_are_refused() -> AbstractContextManager[object]:
    """A request for a turn that is stored is refused like one for a new turn, when much waits."""

    async def refuse(self: TurnAdmission, message: p.StartTurn, refusal: OverloadedError) -> None:
        await asyncio.sleep(0)
        raise refusal

    return mock.patch.object(TurnAdmission, "_check_that_it_is_there", refuse)


def refusals_name_no_time() -> AbstractContextManager[object]:
    """Who is refused learns nothing of when to come again."""
    return mock.patch("actors.rules.capacity.backlog.retry_after_s", return_value=0.0)


def _weights_are(changed: Callable[[int], int]) -> AbstractContextManager[object]:
    """Users have other weights at the gate than those that they were given; where none has any, all stay equal."""

    def other(of_users: Mapping[str, int]) -> Callable[[Hashable], int] | None:
        weight_of = weights(of_users)
        return None if weight_of is None else lambda user: changed(weight_of(user))

    return mock.patch.object(gate, "weights", other)


def users_have_no_weights() -> AbstractContextManager[object]:
    """All users count the same."""
    return _weights_are(lambda weight: 1)


def a_user_is_served_once_more_than_its_weight() -> AbstractContextManager[object]:
    """A row is one turn too long."""
    return _weights_are(lambda weight: weight + 1)


def a_user_is_served_once_less_than_its_weight() -> AbstractContextManager[object]:
    """A row of several turns is one turn too short."""
    return _weights_are(lambda weight: max(1, weight - 1))


def a_weight_of_many_is_that_of_two() -> AbstractContextManager[object]:
    """Users have a weight or none, and how high it is makes no difference."""
    return _weights_are(lambda weight: min(weight, 2))


def sessions_have_the_weight_of_their_user() -> AbstractContextManager[object]:
    """The sessions of a user do not take turns within its row."""
    take: Any = FairQueue.take

    def in_a_row(self: FairQueue[Any]) -> object:
        user = next(iter(self._turns), None)
        session = next(iter(self._turns[user]), None) if user is not None else None
        taken = take(self)
        if session is not None and self._in_a_row and session in self._turns.get(user, ()):
            self._turns[user].move_to_end(session, last=False)
        return taken

    return mock.patch.object(FairQueue, "take", in_a_row)


def what_one_user_leaves_of_its_row_is_taken_from_the_next() -> AbstractContextManager[object]:
    """A row that ends early, since nothing more of the user waits, counts on for the user after it."""
    return mock.patch.object(FairQueue, "_end_row")


def a_user_that_has_had_its_row_stays_first() -> AbstractContextManager[object]:
    """The next row is the same user's again, while anything of it waits."""
    return mock.patch.object(FairQueue, "_has_had_its_turn", return_value=False)


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    each.__name__: each
    for each in (
        users_do_not_take_turns,
        sessions_do_not_take_turns,
        one_more_waits_than_may,
        turns_that_were_cancelled_stay_in_line,
        those_who_come_late_overtake,
        turns_that_are_there_are_refused,
        refusals_name_no_time,
        users_have_no_weights,
        a_user_is_served_once_more_than_its_weight,
        a_user_is_served_once_less_than_its_weight,
        a_weight_of_many_is_that_of_two,
        sessions_have_the_weight_of_their_user,
        what_one_user_leaves_of_its_row_is_taken_from_the_next,
        a_user_that_has_had_its_row_stays_first,
    )
}
"""All of them, by name."""
