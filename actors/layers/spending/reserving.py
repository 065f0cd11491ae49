"""Budgets of turns, agents, sessions, users and apps: what was used the log says, and what is under way is reserved here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from functools import partial

from actors.errors import BudgetExceededError
from actors.layers.spending.accounts import BudgetAccounts, last_call_of
from actors.layers.spending.messages import AskForMore, DoWithout, MaySpend, ReserveSpending
from actors.layers.spending.rules.at_limit import (
    Allowed,
    Decision,
    LeftOut,
    Questioned,
    Refused,
    decide_call,
    decide_tools,
    end_text,
    facts_of,
    if_room,
)
from actors.layers.spending.rules.budgets import likely_call
from actors.layers.spending.turn_spending import Spending
from actors.layers.spending.warnings import BudgetWarnings
from actors.messages.costs import Price
from actors.session.log.logs import SessionLogs
from actors.session.turns.lookup import TurnLookup

COUNTED_OF_BUDGETS = (
    "budget_warnings",
    "budget_refusals",
    "budget_questions",
    "budget_wrap_ups",
    "budget_other_models",
    "budget_left_out",
)
"""What is counted of budgets."""


class TurnBudgets:
    """Answers ReserveSpending.

    What a turn has used is the fold of its events, so it is the same whatever was lost. What is reserved is lost with this actor:
    each agent may have one call under way by then, which is counted once its response is in the log.

    Args:
        logs: write to the store.
        lookup: finds turns.
        accounts: says how far budgets are used.
        prices: of tokens, by names of models or patterns.
        counts: the actor's figures: warnings, and what happened where a budget was used up.
    """

    def __init__(
        self,
        logs: SessionLogs,
        lookup: TurnLookup,
        accounts: BudgetAccounts,
        prices: Mapping[str, Price],
        counts: MutableMapping[str, int],
    ) -> None:
        self._logs = logs
        self._lookup = lookup
        self._accounts = accounts
        self._prices = prices
        self._counts = counts
        self._warnings = BudgetWarnings(prices)

    async def reserve(self, message: ReserveSpending) -> MaySpend | AskForMore | DoWithout:
        """Reserve what a model call is likely to take, or let calls of tools be run; or say what is to be done instead.

        Raises:
            BudgetExceededError: a budget has no room for it.
            NoPriceError: it is one of money, and the model has no price.
            FencedError: the turn is not open, or was given to another Runner, or the run was abandoned.
            StoreError: the log had to be loaded, or other turns to be looked at, and could not be.
        """
        _, turn = await self._lookup.current(message.turn)
        others = await self._accounts.read(message.turn.key, turn)
        # The store may have taken its time.
        log, turn = await self._lookup.current(message.turn)
        at_s = asyncio.get_running_loop().time()
        accounts = self._accounts.accounts(message, turn, others, at_s)
        if message.model:
            wanted = partial(likely_call, turn.ledger.spent, message.agent, input_tokens=message.input_tokens)
            needed = decide_call(accounts, wanted, message.model, self._prices)
            decision: Decision | LeftOut = if_room(needed) if message.is_optional else needed
        else:
            decision = decide_tools(accounts, message.tool_calls)
        warnings = self._warnings.new(message.turn.key, turn, accounts)
        self._counts["budget_warnings"] += len(warnings)
        match decision:
            case Refused(account, (field, limit, used, more)):
                self._counts["budget_refusals"] += 1
                raise BudgetExceededError(message.agent, field, limit, round(used, 6), round(more, 6), account.whose)
            case LeftOut(account):
                self._counts["budget_left_out"] += 1
                return DoWithout(whose=account.whose, warnings=warnings)
            case Questioned(account):
                self._counts["budget_questions"] += 1
                return AskForMore(scope=account.scope, facts=facts_of(decision, message.agent), warnings=warnings)
            case Allowed(call, wraps_up):
                self._counts["budget_wrap_ups"] += len(wraps_up)
                if call is not None and accounts:
                    Spending.of(turn).reserved[message.turn.run] = (call, at_s)
                if wraps_up:
                    # On disk before the agent hears of it: an heir of this actor does not tell it once more.
                    steps = turn.ledger.steps.get(message.agent, 0)
                    Spending.of(turn).last_calls |= {last_call_of(each, message.agent): steps for each, _ in wraps_up}
                    await self._logs.write(log, [log.put_turn(turn.record())])
                instead = call.model if call is not None and call.model != message.model else ""
                self._counts["budget_other_models"] += bool(instead)
                return MaySpend(model=instead, end=end_text(wraps_up), warnings=warnings)
