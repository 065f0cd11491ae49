"""Defects of budgets: what is forgotten of what was used, or is about to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from actors.agent.llm_budget import LlmBudget
from actors.errors import BudgetExceededError
from actors.messages.protocol.log import MaySpend
from actors.session.log.open_turn import SessionTurn
from actors.session.spending import accounts as accounts_module
from actors.session.spending.accounts import NOTHING_SPENT, BudgetAccounts, OthersSpent
from actors.session.spending.day_sums import DaySums


def calls_under_way_do_not_count() -> AbstractContextManager[object]:
    """What agents side by side have under way is not reserved."""
    accounts: Any = BudgetAccounts.accounts

    def forgetful(self: BudgetAccounts, *args: Any) -> Any:
        return [each._replace(under_way=()) for each in accounts(self, *args)]

    return mock.patch.object(BudgetAccounts, "accounts", forgetful)


def turns_before_do_not_count() -> AbstractContextManager[object]:
    """What earlier turns of the session and of the user have used is not looked at."""

    async def nothing(self: BudgetAccounts, key: Any, turn: Any) -> OthersSpent:
        return OthersSpent(NOTHING_SPENT, NOTHING_SPENT)

    return mock.patch.object(BudgetAccounts, "read", nothing)


def lost_actors_forget_what_was_used() -> AbstractContextManager[object]:
    """A turn that goes on after a loss, or an answer, begins with all of its budget."""
    again: Any = SessionTurn.of.__func__  # type: ignore[attr-defined]

    def of(cls: type[SessionTurn], *args: Any, **more: Any) -> SessionTurn:
        turn: SessionTurn = again(cls, *args, **more)
        turn.config = type(turn.config)()
        return turn

    return mock.patch.object(SessionTurn, "of", classmethod(of))


def refusals_are_ignored() -> AbstractContextManager[object]:
    """An agent makes the call for which a budget has no room, if others of the turn had room."""
    take: Any = LlmBudget.take_call

    async def lenient(self: LlmBudget, *args: Any) -> Any:
        try:
            return await take(self, *args)
        except BudgetExceededError:
            return MaySpend()

    return mock.patch.object(LlmBudget, "take_call", lenient)


def users_never_begin_anew() -> AbstractContextManager[object]:
    """What a user has used on earlier days counts, too."""
    return mock.patch.object(accounts_module, "DAY_S", 1e12)


def apps_never_begin_anew() -> AbstractContextManager[object]:
    """What turns of an app have used is read on the first day alone."""
    refresh: Any = DaySums.refresh

    async def once(self: DaySums, key: Any) -> None:
        if self._day < 0:
            await refresh(self, key)

    return mock.patch.object(DaySums, "refresh", once)


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    each.__name__: each
    for each in (
        calls_under_way_do_not_count,
        turns_before_do_not_count,
        lost_actors_forget_what_was_used,
        refusals_are_ignored,
        users_never_begin_anew,
        apps_never_begin_anew,
    )
}
"""All of them, by name."""
