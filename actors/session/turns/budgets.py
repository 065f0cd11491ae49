"""Budgets of turns: what they have used the log says, and what is under way is reserved here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from actors.errors import BudgetExceededError, NoPriceError
from actors.messages import protocol as p
from actors.messages.config import Budget
from actors.messages.usage import Price
from actors.rules.accounting.budgets import Excess, excess_of_call, excess_of_tools, likely_call
from actors.rules.accounting.prices import price_of
from actors.session.log.open_turn import SessionTurn
from actors.session.turns.lookup import TurnLookup

RESERVED_S = 600.0
"""A call that has not ended after so long was stopped, and its run with it, of which this actor is not told."""


class TurnBudgets:
    """Answers ReserveSpending.

    What a turn has used is the fold of its events, so it is the same whatever was lost. What is reserved is lost with this actor:
    each agent may have one call under way by then, which is counted once its response is in the log.

    Args:
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, lookup: TurnLookup, prices: Mapping[str, Price]) -> None:
        self._lookup = lookup
        self._prices = prices

    async def reserve(self, message: p.ReserveSpending) -> p.Ack:
        """Reserve what a model call is likely to take, or let calls of tools be run.

        Raises:
            BudgetExceededError: the budget has no room for it.
            NoPriceError: it is one of money, and the model has no price.
            FencedError: the turn is not open, or was given to another Runner, or the run was abandoned.
            StoreError: the log had to be loaded, and could not be.
        """
        _, turn = await self._lookup.current(message.turn)
        budget = turn.config.budget
        if budget is None:
            return p.Ack()
        if message.model:
            excess = self._excess_of_call(turn, budget, message)
        else:
            excess = excess_of_tools(budget, turn.usage.spent, message.tool_calls)
        if excess is not None:
            field, limit, used, more = excess
            whose = f"turn {message.turn.invocation_id!r}"
            raise BudgetExceededError(message.agent, field, limit, round(used, 6), round(more, 6), whose)
        return p.Ack()

    def _excess_of_call(self, turn: SessionTurn, budget: Budget, message: p.ReserveSpending) -> Excess | None:
        if budget.money is not None and price_of(message.model, self._prices) is None:
            raise NoPriceError(message.agent, message.model)
        now_s = asyncio.get_running_loop().time()
        spent = turn.usage.spent
        wanted = likely_call(spent, message.agent, message.model, message.input_tokens)
        # The run may ask again, since the reply was lost: it has one call under way at most.
        others = [call for run, (call, at_s) in turn.reserved.items() if run != message.turn.run and now_s - at_s < RESERVED_S]
        excess = excess_of_call(budget, spent, others, wanted, self._prices)
        if excess is None:
            turn.reserved[message.turn.run] = (wanted, now_s)
        return excess
