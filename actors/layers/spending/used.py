"""How far the budgets of a turn are used, for those who look at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from actors.errors import InvocationNotFoundError
from actors.layers.spending.accounts import BudgetAccounts
from actors.layers.spending.messages import GetTurnBudgets, TurnBudgetsReply, UsedBudget
from actors.layers.spending.rules.at_limit import Account
from actors.layers.spending.rules.budgets import used_of
from actors.messages.costs import Price
from actors.rules.accounting.turn_usage import minus, unpacked
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.parts import SessionParts

MAY_GO_ON = ("paused", "failed")
"""States of turns that have ended and keep their options."""


class UsedBudgets:
    """Answers GetTurnBudgets.

    Args:
        lookup: finds turns.
        accounts: says how far budgets are used.
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, parts: SessionParts, lookup: TurnLookup, accounts: BudgetAccounts, prices: Mapping[str, Price]) -> None:
        self._reader = parts.reader
        self._lookup = lookup
        self._accounts = accounts
        self._prices = prices

    async def get_turn_budgets(self, message: GetTurnBudgets) -> TurnBudgetsReply:
        """Tell how far the budgets of a turn are used. Raises InvocationNotFoundError, SessionNotFoundError, StoreError."""
        key = message.key
        log, row = await self._lookup.log_and_row(key, message.invocation_id)
        if row is None:
            if log.queue.has(message.invocation_id):
                return TurnBudgetsReply()
            raise InvocationNotFoundError(message.invocation_id, key.session)
        turn = log.turn
        if turn is None or turn.row.invocation_id != message.invocation_id:
            if row.status not in MAY_GO_ON:
                return TurnBudgetsReply()
            turn = self._reader.turn_of(row)
            await self._reader.recall(key, turn)
        if not turn.config.budgets:
            return TurnBudgetsReply()
        others = await self._accounts.read(key, turn)
        if turn is not log.turn:
            # The store adds up a turn that has ended among the others.
            spent = unpacked(row.usage) if row.usage else {}
            others = others._replace(of_session=minus(others.of_session, spent) if others.of_session else others.of_session)
        accounts = self._accounts.all(key, turn, others)
        return TurnBudgetsReply(budgets=[each for account in accounts for each in self._limits(account)])

    def _limits(self, account: Account) -> Iterator[UsedBudget]:
        budget = account.budget
        for field, used in used_of(budget, account.spent, self._prices).items():
            yield UsedBudget(
                whose=account.whose,
                field=field,
                limit=round(budget.limits[field], 6),
                used=round(used, 6),
                at_limit=budget.at_limit,
                model=budget.model,
            )
