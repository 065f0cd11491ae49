"""Defects of schedules: what makes a turn twice, or never, or when it may not."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from actors.messages import protocol as p
from actors.runner.actor import RunnerActor
from actors.runner.turns import due_turns
from actors.session.due_times import DueTimes
from actors.session.turns.opening import TurnOpener


async def _no_refusal(self: DueTimes, message: p.OpenTurn) -> None:
    """Refuse nothing."""


def schedules_that_are_gone_make_turns() -> AbstractContextManager[object]:
    """Whether a schedule is there and due is not looked at when its turn begins."""
    return mock.patch.object(DueTimes, "refusal", _no_refusal)


def turns_have_ids_of_their_own() -> AbstractContextManager[object]:
    """A due time that is started again makes another turn, and nothing is looked at when it begins."""
    patches = ExitStack()
    patches.enter_context(mock.patch.object(due_turns, "turn_id", lambda time: f"{time.id}-{uuid.uuid4()}"))
    patches.enter_context(schedules_that_are_gone_make_turns())
    return patches


def repeated_requests_are_refused() -> AbstractContextManager[object]:
    """A turn whose reply was lost is refused when it is asked for again, since its schedule has gone on with it."""
    decision: Any = TurnOpener._decision

    async def refused(self: TurnOpener, request: Any, refusal: Exception | None) -> Any:
        if refusal is not None:
            raise refusal
        return await decision(self, request, None)

    return mock.patch.object(TurnOpener, "_decision", refused)


def what_is_due_earlier_is_not_noted() -> AbstractContextManager[object]:
    """A Runner waits until what was due next when it began to wait, whatever is due before that."""
    return mock.patch.object(DueTimes, "note_due", return_value=None)


def runners_that_are_started_again_watch_nothing() -> AbstractContextManager[object]:
    """A Runner that was lost goes on with its turns, and starts none of schedules."""

    async def turns_only(self: RunnerActor, message: p.RecoverTurns) -> p.Ack:
        return await self._recovery.recover_turns(message)

    return mock.patch.object(RunnerActor, "recover_turns", turns_only)


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    each.__name__: each
    for each in (
        schedules_that_are_gone_make_turns,
        turns_have_ids_of_their_own,
        repeated_requests_are_refused,
        what_is_due_earlier_is_not_noted,
        runners_that_are_started_again_watch_nothing,
    )
}
"""All of them, by name."""
