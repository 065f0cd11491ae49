"""Defects of what happens when much is asked for at once: who may wait, and who comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
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
    enter: Any = TurnGate.enter

    async def at_once(self: TurnGate, turn: TurnKey) -> GatePlace:
        if len(self._inside) <= self._at_once and self._waiting:
            return self._let_in()
        place: GatePlace = await enter(self, turn)
        return place

    return mock.patch.object(TurnGate, "enter", at_once)


def turns_that_are_there_are_refused() -> AbstractContextManager[object]:
    """A request for a turn that is stored is refused like one for a new turn, when much waits."""

    async def refuse(self: TurnAdmission, message: p.StartTurn, refusal: OverloadedError) -> None:
        await asyncio.sleep(0)
        raise refusal

    return mock.patch.object(TurnAdmission, "_check_that_it_is_there", refuse)


def refusals_name_no_time() -> AbstractContextManager[object]:
    """Who is refused learns nothing of when to come again."""
    return mock.patch("actors.rules.capacity.backlog.retry_after_s", return_value=0.0)


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
    )
}
"""All of them, by name."""
