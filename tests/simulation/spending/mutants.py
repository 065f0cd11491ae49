"""Defects of budgets: what is forgotten of what was used, or is about to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from msgspec.structs import replace

from actors.agent.llm_budget import LlmBudget
from actors.behaviours.llm.budgeted_model import BudgetedModel
from actors.behaviours.llm.run import LlmRun
from actors.errors import BudgetExceededError
from actors.interfaces.records import HideEvents, PutTurn, TurnFilter
from actors.messages.protocol.log import MaySpend
from actors.rules.accounting.turn_usage import packed
from actors.rules.checks.budget_question import BudgetAnswers, scope_of
from actors.session.log.open_turn import SessionTurn, TurnNotes
from actors.session.log.reader import LogReader
from actors.session.spending import accounts as accounts_module
from actors.session.spending.accounts import BudgetAccounts, OthersSpent
from actors.session.spending.day_sums import DaySums
from runtime.stores.sql.sessions import SqlSessionStore


def calls_under_way_do_not_count() -> AbstractContextManager[object]:
    """What agents side by side have under way is not reserved."""
    accounts: Any = BudgetAccounts.accounts

    def forgetful(self: BudgetAccounts, *args: Any) -> Any:
        return [each._replace(under_way=()) for each in accounts(self, *args)]

    return mock.patch.object(BudgetAccounts, "accounts", forgetful)


def turns_before_do_not_count() -> AbstractContextManager[object]:
    """What earlier turns of the session and of the user have used is not looked at."""

    async def nothing(self: BudgetAccounts, key: Any, turn: Any) -> OthersSpent:
        return OthersSpent()

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
    take: Any = LlmBudget.take_llm_call

    async def lenient(self: LlmBudget, *args: Any) -> Any:
        try:
            return await take(self, *args)
        except BudgetExceededError:
            return MaySpend()

    return mock.patch.object(LlmBudget, "take_llm_call", lenient)


def days_never_begin_anew() -> AbstractContextManager[object]:
    """What turns of an app, or of a user, have used is read on the first day alone."""
    refresh: Any = DaySums.refresh

    async def once(self: DaySums, key: Any) -> None:
        if self._day < 0:
            await refresh(self, key)

    return mock.patch.object(DaySums, "refresh", once)


def what_was_begun_yesterday_is_forgotten() -> AbstractContextManager[object]:
    """What turns use after midnight that began before counts for neither day."""
    return mock.patch.object(DaySums, "_used_by_older", return_value={})


def sessions_of_a_user_know_nothing_of_each_other() -> AbstractContextManager[object]:
    """What other sessions have under way does not count."""
    under_way: Any = DaySums.under_way

    def own(self: DaySums, since_s: float) -> Any:
        return [each for each in under_way(self, since_s) if each[0].session == "s1"]

    return mock.patch.object(DaySums, "under_way", own)


def agents_below_do_not_count() -> AbstractContextManager[object]:
    """The budget of an agent bounds that agent alone."""
    return mock.patch.object(accounts_module, "agents_below", lambda topology, name: frozenset({name}))


def more_is_given_twice() -> AbstractContextManager[object]:
    """An answer raises the budget by twice as much."""
    note: Any = BudgetAnswers.note

    def twice(self: BudgetAnswers, seq: int, answer: Any) -> None:
        note(self, seq, answer)
        self._seq = 0
        note(self, seq, answer)

    return mock.patch.object(BudgetAnswers, "note", twice)


def no_is_not_heard() -> AbstractContextManager[object]:
    """A user who has said no is asked again."""
    met: Any = accounts_module._as_met

    def deaf(*args: Any) -> Any:
        return met(*args)._replace(is_declined=False)

    return mock.patch.object(accounts_module, "_as_met", deaf)


def answers_are_lost_with_the_session_actor() -> AbstractContextManager[object]:
    """What was given is not read from the log again."""
    recall: Any = LogReader.recall

    async def forgetful(self: LogReader, key: Any, turn: SessionTurn) -> Any:
        found = await recall(self, key, turn)
        turn.raises.clear()
        return found

    return mock.patch.object(LogReader, "recall", forgetful)


def questions_are_asked_again() -> AbstractContextManager[object]:
    """A run that goes on does not look whether it has asked, and calls its model: that asks once more."""
    finish: Any = LlmRun._finish_last_step

    async def forgetful(self: LlmRun) -> Any:
        asked = any(scope_of(call.id) for call in self._context.done[-1].function_calls())
        return None if asked else await finish(self)

    return mock.patch.object(LlmRun, "_finish_last_step", forgetful)


def agents_end_twice() -> AbstractContextManager[object]:
    """An agent that had to end, and goes on, is told to end once more."""
    return mock.patch.object(accounts_module, "_has_ended", return_value=False)


def heirs_ask_agents_to_end_again() -> AbstractContextManager[object]:
    """What agents had to end is known to the Session actor alone that has told them, as it was before the log said so."""
    patches = ExitStack()
    patches.enter_context(mock.patch.object(accounts_module, "is_overdrawn", return_value=False))
    of: Any = SessionTurn.of.__func__  # type: ignore[attr-defined]

    def forgetful(cls: type[SessionTurn], row: Any) -> SessionTurn:
        turn: SessionTurn = of(cls, row)
        turn.last_calls.clear()
        return turn

    patches.enter_context(mock.patch.object(SessionTurn, "of", classmethod(forgetful)))
    return patches


def calls_beyond_that_nobody_knew_of_do_not_count() -> AbstractContextManager[object]:
    """An agent is told to end that has gone beyond the budget already, by a call that its lost Session actor knew of."""
    return mock.patch.object(accounts_module, "is_overdrawn", return_value=False)


def the_cheaper_model_is_not_called() -> AbstractContextManager[object]:
    """The agent's own model is called where a budget names another one."""
    call: Any = BudgetedModel._call

    def own(self: BudgetedModel, request: Any, reply: MaySpend) -> Any:
        return call(self, request, MaySpend(end=reply.end))

    return mock.patch.object(BudgetedModel, "_call", own)


def forks_have_used_what_they_copied() -> AbstractContextManager[object]:
    """What a fork has copied counts for it, too."""
    return mock.patch.object(TurnNotes, "uncounted", classmethod(lambda cls, row: row))


def what_was_rewound_was_not_used() -> AbstractContextManager[object]:
    """Turns that were taken back do not count any more."""
    commit: Any = SqlSessionStore.commit

    def forgetful(self: SqlSessionStore, writes: Any) -> None:
        keys = [write.key for write in writes if isinstance(write, HideEvents)]
        turns = [each for key in keys for each in self.turns(TurnFilter(app=key.app, user=key.user, session=key.session))]
        commit(self, [*(PutTurn(key, replace(row, usage=packed({})), row.ended_s) for key, row in turns), *writes])

    return mock.patch.object(SqlSessionStore, "commit", forgetful)


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    each.__name__: each
    for each in (
        calls_under_way_do_not_count,
        turns_before_do_not_count,
        lost_actors_forget_what_was_used,
        refusals_are_ignored,
        days_never_begin_anew,
        what_was_begun_yesterday_is_forgotten,
        sessions_of_a_user_know_nothing_of_each_other,
        agents_below_do_not_count,
        more_is_given_twice,
        no_is_not_heard,
        answers_are_lost_with_the_session_actor,
        questions_are_asked_again,
        agents_end_twice,
        heirs_ask_agents_to_end_again,
        calls_beyond_that_nobody_knew_of_do_not_count,
        the_cheaper_model_is_not_called,
        forks_have_used_what_they_copied,
        what_was_rewound_was_not_used,
    )
}
"""All of them, by name."""
