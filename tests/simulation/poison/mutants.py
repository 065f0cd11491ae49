"""Defects of losses: who is counted, who is charged, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from actors.messages import protocol as p
from actors.messages.protocol.progress import RunLosses
from actors.rules.recovery.suspects import next_alone
from actors.runner.dispatch import invoker, isolation
from actors.session.log.open_turn import SessionTurn
from actors.session.turns.recovery import TurnRecovery
from tests.simulation.mutants.turns import losses_count_by_runner


def attempts_are_not_stored() -> AbstractContextManager[object]:
    """That a run begins alone is not stored before it does."""

    async def careless(self: TurnRecovery, message: p.BeginAlone) -> p.Ack:
        return p.Ack()

    return mock.patch.object(TurnRecovery, "begin_alone", careless)


def runners_take_no_suspects_along() -> AbstractContextManager[object]:
    """The loss of a Runner is counted for no run."""
    return mock.patch.object(SessionTurn, "count_loss_of_runner", SessionTurn.note_lost)


def losses_with_others_are_charged() -> AbstractContextManager[object]:
    """A run is given up after its third loss, whoever it was lost with."""

    def charged(run: str, losses: Mapping[str, RunLosses]) -> bool:
        return losses[run].times >= 3 if run in losses else False

    return mock.patch.object(invoker, "is_given_up", charged)


def suspects_share_a_process() -> AbstractContextManager[object]:
    """Runs that may have ended a process go on beside others."""
    return mock.patch.object(invoker, "is_suspect", return_value=False)


def suspects_of_runners_begin_together() -> AbstractContextManager[object]:
    """What may have ended a Runner begins at once."""
    right: Any = next_alone

    def hasty(waiting: Any, beginning: Any, running: int) -> Any:
        return right(waiting, (), 0)

    return mock.patch.object(isolation, "next_alone", hasty)


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    each.__name__: each
    for each in (
        attempts_are_not_stored,
        losses_count_by_runner,
        runners_take_no_suspects_along,
        losses_with_others_are_charged,
        suspects_share_a_process,
        suspects_of_runners_begin_together,
    )
}
"""All of them, by name."""
