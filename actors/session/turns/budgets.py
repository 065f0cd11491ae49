"""Budgets of turns, sessions and users: what was used the log says, and what is under way is reserved here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from actors.errors import BudgetExceededError, NoPriceError
from actors.interfaces.store_abilities.usage import UsageFilter
from actors.messages import protocol as p
from actors.messages.config import Budget
from actors.messages.event import now_s
from actors.messages.operating.usage import Price
from actors.messages.session import SessionKey
from actors.rules.accounting.budgets import Excess, LikelyCall, excess_of_call, excess_of_tools, likely_call
from actors.rules.accounting.prices import price_of
from actors.rules.accounting.report import DAY_S
from actors.rules.accounting.turn_usage import Spent, together
from actors.session.log.open_turn import SessionTurn
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.stored_usage import StoredUsage

RESERVED_S = 600.0
"""A call that has not ended after so long was stopped, and its run with it, of which this actor is not told."""


class _Account(NamedTuple):
    """A budget, whose it is, and what others than the turn have used of it."""

    budget: Budget
    whose: str
    others: Spent


class TurnBudgets:
    """Answers ReserveSpending.

    What a turn has used is the fold of its events, so it is the same whatever was lost. What is reserved is lost with this actor:
    each agent may have one call under way by then, which is counted once its response is in the log. The same holds between the
    sessions of a user: what one of them has under way the others do not know.

    Args:
        lookup: finds turns.
        stored: reads what other turns have used.
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, lookup: TurnLookup, stored: StoredUsage, prices: Mapping[str, Price]) -> None:
        self._lookup = lookup
        self._stored = stored
        self._prices = prices

    async def reserve(self, message: p.ReserveSpending) -> p.Ack:
        """Reserve what a model call is likely to take, or let calls of tools be run.

        Raises:
            BudgetExceededError: a budget has no room for it.
            NoPriceError: it is one of money, and the model has no price.
            FencedError: the turn is not open, or was given to another Runner, or the run was abandoned.
            StoreError: the log had to be loaded, or other turns to be looked at, and could not be.
        """
        _, turn = await self._lookup.current(message.turn)
        accounts = await self._accounts(message.turn.key, turn)
        # The store may have taken its time.
        _, turn = await self._lookup.current(message.turn)
        at_s = asyncio.get_running_loop().time()
        # The run may ask again, since the reply was lost: it has one call under way at most.
        others = {run: call for run, (call, since_s) in turn.reserved.items() if at_s - since_s < RESERVED_S}
        under_way = [call for run, call in others.items() if run != message.turn.run]
        wanted = likely_call(turn.usage.spent, message.agent, message.model, message.input_tokens)
        for budget, whose, before in accounts:
            spent = together(before, turn.usage.spent)
            if message.model:
                excess = self._excess_of_call(budget, spent, under_way, wanted, message)
            else:
                excess = excess_of_tools(budget, spent, message.tool_calls)
            if excess is not None:
                field, limit, used, more = excess
                raise BudgetExceededError(message.agent, field, limit, round(used, 6), round(more, 6), whose)
        if message.model and accounts:
            turn.reserved[message.turn.run] = (wanted, at_s)
        return p.Ack()

    async def _accounts(self, key: SessionKey, turn: SessionTurn) -> list[_Account]:
        config, invocation_id = turn.config, turn.row.invocation_id
        accounts = []
        if config.budget is not None:
            accounts.append(_Account(config.budget, f"turn {invocation_id!r}", {}))
        if config.session_budget is not None:
            if turn.before is None:
                # No other turn of the session runs while this one does.
                of_session = UsageFilter(app=key.app, user=key.user, session=key.session)
                turn.before = await self._stored.spent(of_session, (key, invocation_id))
            accounts.append(_Account(config.session_budget, f"session {key.session!r}", turn.before))
        if config.user_daily_budget is not None:
            of_user = UsageFilter(app=key.app, user=key.user, since_s=now_s() // DAY_S * DAY_S)
            others = await self._stored.spent(of_user, (key, invocation_id))
            accounts.append(_Account(config.user_daily_budget, f"user {key.user!r} today", others))
        return accounts

    def _excess_of_call(
        self, budget: Budget, spent: Spent, under_way: list[LikelyCall], wanted: LikelyCall, message: p.ReserveSpending
    ) -> Excess | None:
        if budget.money is not None and price_of(message.model, self._prices) is None:
            raise NoPriceError(message.agent, message.model)
        return excess_of_call(budget, spent, under_way, wanted, self._prices)
