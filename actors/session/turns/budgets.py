"""Budgets of turns, sessions and users: what was used the log says, and what is under way is reserved here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from actors.errors import BudgetExceededError
from actors.interfaces.store_abilities.usage import UsageFilter
from actors.messages import protocol as p
from actors.messages.config import Budget
from actors.messages.event import now_s
from actors.messages.operating.usage import Price
from actors.messages.session import SessionKey
from actors.rules.accounting.at_limit import (
    Account,
    Allowed,
    Questioned,
    Refused,
    decide_call,
    decide_tools,
    end_text,
    facts_of,
    raised,
)
from actors.rules.accounting.budgets import LikelyCall, likely_call
from actors.rules.accounting.report import DAY_S
from actors.rules.accounting.turn_usage import Spent, together
from actors.rules.routing.branches import tool_root
from actors.session.log.open_turn import SessionTurn
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.stored_usage import StoredUsage

RESERVED_S = 600.0
"""A call that has not ended after so long was stopped, and its run with it, of which this actor is not told."""


class _TurnBudget(NamedTuple):
    """A budget of a turn, whose it is, and what others than the turn have used of it."""

    scope: str
    whose: str
    budget: Budget
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

    async def reserve(self, message: p.ReserveSpending) -> p.MaySpend | p.AskForMore:
        """Reserve what a model call is likely to take, or let calls of tools be run; or say what is to be done instead.

        Raises:
            BudgetExceededError: a budget has no room for it.
            NoPriceError: it is one of money, and the model has no price.
            FencedError: the turn is not open, or was given to another Runner, or the run was abandoned.
            StoreError: the log had to be loaded, or other turns to be looked at, and could not be.
        """
        _, turn = await self._lookup.current(message.turn)
        budgets = await self._budgets(message.turn.key, turn)
        # The store may have taken its time.
        _, turn = await self._lookup.current(message.turn)
        at_s = asyncio.get_running_loop().time()
        # The run may ask again, since the reply was lost: it has one call under way at most.
        others = {run: call for run, (call, since_s) in turn.reserved.items() if at_s - since_s < RESERVED_S}
        under_way = [call for run, call in others.items() if run != message.turn.run]
        accounts = [_account(each, turn, message, under_way) for each in budgets]
        if message.model:
            wanted = partial(likely_call, turn.usage.spent, message.agent, input_tokens=message.input_tokens)
            decision = decide_call(accounts, wanted, message.model, self._prices)
        else:
            decision = decide_tools(accounts, message.tool_calls)
        match decision:
            case Refused(account, (field, limit, used, more)):
                raise BudgetExceededError(message.agent, field, limit, round(used, 6), round(more, 6), account.whose)
            case Questioned(account):
                return p.AskForMore(scope=account.scope, facts=facts_of(decision, message.agent))
            case Allowed(call, wraps_up):
                for account, _ in wraps_up:
                    turn.last_calls[_end_key(account.scope, message.agent)] = turn.responses_of(message.agent)
                if call is not None and accounts:
                    turn.reserved[message.turn.run] = (call, at_s)
                instead = call.model if call is not None and call.model != message.model else ""
                return p.MaySpend(model=instead, end=end_text(wraps_up))

    async def _budgets(self, key: SessionKey, turn: SessionTurn) -> list[_TurnBudget]:
        config, invocation_id = turn.config, turn.row.invocation_id
        budgets = []
        if config.budget is not None:
            budgets.append(_TurnBudget("turn", f"turn {invocation_id!r}", config.budget, {}))
        if config.session_budget is not None:
            if turn.before is None:
                # No other turn of the session runs while this one does.
                of_session = UsageFilter(app=key.app, user=key.user, session=key.session)
                turn.before = await self._stored.spent(of_session, (key, invocation_id))
            budgets.append(_TurnBudget("session", f"session {key.session!r}", config.session_budget, turn.before))
        if config.user_daily_budget is not None:
            of_user = UsageFilter(app=key.app, user=key.user, since_s=now_s() // DAY_S * DAY_S)
            others = await self._stored.spent(of_user, (key, invocation_id))
            budgets.append(_TurnBudget("user", f"user {key.user!r} today", config.user_daily_budget, others))
        return budgets


def _account(of: _TurnBudget, turn: SessionTurn, message: p.ReserveSpending, under_way: Sequence[LikelyCall]) -> Account:
    """A budget as an agent meets it, and how far it is used."""
    budget, answers = of.budget, turn.raises.get(of.scope)
    if budget.at_limit == "ask" and tool_root(message.branch) is not None:
        # An agent that is asked as a tool cannot pause the turn: the one that has asked it will.
        budget = msgspec.structs.replace(budget, at_limit="stop")
    if answers is not None:
        budget = raised(budget, answers.more)
    told_at = turn.last_calls.get(_end_key(of.scope, message.agent))
    return Account(
        of.scope,
        of.whose,
        budget,
        together(of.others, turn.usage.spent),
        under_way,
        is_declined=answers is not None and answers.declined_seq > turn.retried_seq,
        has_ended=told_at is not None and turn.responses_of(message.agent) > told_at,
    )


def _end_key(scope: str, agent: str) -> str:
    return f"{scope} {agent}"
