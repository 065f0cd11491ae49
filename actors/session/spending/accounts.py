"""The budgets that bound what a run is about to do, with what is used of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from actors.interfaces.store_abilities.usage import UsageFilter
from actors.messages import protocol as p
from actors.messages.event import now_s
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.rules.accounting.at_limit import Account, raised
from actors.rules.accounting.budgets import LikelyCall
from actors.rules.accounting.report import DAY_S
from actors.rules.accounting.turn_usage import Spent, together
from actors.rules.routing.branches import tool_root
from actors.rules.tree.below import agents_below
from actors.session.log.open_turn import SessionTurn
from actors.session.spending.day_sums import DaySums
from actors.session.turns.stored_usage import StoredUsage

RESERVED_S = 600.0
"""A call that has not ended after so long was stopped, and its run with it, of which this actor is not told."""

NOTHING_SPENT: Spent = {}


class OthersSpent(NamedTuple):
    """What others than a turn have used of its budgets."""

    of_session: Spent = NOTHING_SPENT
    of_user: Spent = NOTHING_SPENT


class BudgetAccounts:
    """Says how far the budgets of a turn are used.

    Args:
        topology: gives the tree of a version, which says who is below an agent with a budget.
        stored: reads what other turns have used.
        day: what all turns of the day have used.
    """

    def __init__(self, topology: Callable[[str], Topology], stored: StoredUsage, day: DaySums) -> None:
        self._stored = stored
        self._day = day
        self._below = lru_cache(1_000)(lambda name, version: agents_below(topology(version), name))

    async def read(self, key: SessionKey, turn: SessionTurn) -> OthersSpent:
        """Read what the store has to say about a turn's budgets. Raises StoreError."""
        config = turn.config
        this = [(key, turn.row.invocation_id)]
        of_user = NOTHING_SPENT
        if config.session_budget is not None and turn.before is None:
            # No other turn of the session runs while this one does.
            turn.before = await self._stored.spent(UsageFilter(app=key.app, user=key.user, session=key.session), this)
        if config.user_daily_budget is not None:
            wanted = UsageFilter(app=key.app, user=key.user, since_s=now_s() // DAY_S * DAY_S)
            of_user = await self._stored.spent(wanted, this)
        if config.app_daily_budget is not None:
            await self._day.refresh(key)
        return OthersSpent(turn.before or NOTHING_SPENT, of_user)

    def accounts(self, message: p.ReserveSpending, turn: SessionTurn, others: OthersSpent, at_s: float) -> list[Account]:
        """The accounts that a run has to fit into.

        Args:
            others: what was read for it.
            at_s: now, on the event loop's clock.
        """
        if turn.config.app_daily_budget is not None:
            self._day.track(message.turn.key, turn)
            self._day.note(message.turn.key, turn)
        return [_as_met(each, turn, message) for each in self._accounts(message, turn, others, at_s)]

    def all(self, key: SessionKey, turn: SessionTurn, others: OthersSpent) -> list[Account]:
        """The accounts of all agents of a turn, of whom none is about to do anything."""
        found: dict[str, Account] = {}
        this = p.TurnRef(key, turn.row.invocation_id, turn.row.epoch)
        for agent in ("", *(turn.config.agent_budgets or {})):
            message = p.ReserveSpending(turn=this, agent=agent)
            for account in self._accounts(message, turn, others, math.inf):
                found.setdefault(account.scope, _as_met(account, turn, message))
        return list(found.values())

    def _accounts(self, message: p.ReserveSpending, turn: SessionTurn, others: OthersSpent, at_s: float) -> Iterator[Account]:
        config, key, spent = turn.config, message.turn.key, turn.usage.spent
        # The run may ask again, since the reply was lost: it has one call under way at most.
        reserved = [(run, call) for run, (call, since_s) in turn.reserved.items() if at_s - since_s < RESERVED_S]
        here = [call for run, call in reserved if run != message.turn.run]
        if config.budget is not None:
            yield Account("turn", f"turn {turn.row.invocation_id!r}", config.budget, spent, here)
        for name, budget in (config.agent_budgets or {}).items():
            below = self._below(name, turn.row.version)
            if message.agent in below:
                used = {spender: amounts for spender, amounts in spent.items() if spender[0] in below}
                yield Account(f"agent:{name}", f"agent {name!r}", budget, used, [call for call in here if call.agent in below])
        if config.session_budget is not None:
            yield Account("session", f"session {key.session!r}", config.session_budget, together(others.of_session, spent), here)
        if config.user_daily_budget is not None:
            yield Account("user", f"user {key.user!r} today", config.user_daily_budget, together(others.of_user, spent), here)
        if config.app_daily_budget is not None:
            whose = f"app {key.app!r} today"
            yield Account("app", whose, config.app_daily_budget, self._day.spent(), self._of_app(message, at_s))

    def _of_app(self, message: p.ReserveSpending, at_s: float) -> list[LikelyCall]:
        this = (message.turn.key, message.turn.invocation_id, message.turn.run)
        under_way = self._day.under_way(at_s - RESERVED_S)
        return [call for key, invocation_id, run, call in under_way if (key, invocation_id, run) != this]


def _as_met(account: Account, turn: SessionTurn, message: p.ReserveSpending) -> Account:
    """An account as an agent meets it, after what the user has answered, and the agent had to do."""
    budget, answers = account.budget, turn.raises.get(account.scope)
    if budget.at_limit == "ask" and tool_root(message.branch) is not None:
        # An agent that is asked as a tool cannot pause the turn: the one that has asked it will.
        budget = msgspec.structs.replace(budget, at_limit="stop")
    if answers is not None:
        budget = raised(budget, answers.more)
    told_at = turn.last_calls.get(last_call_of(account, message.agent))
    return account._replace(
        budget=budget,
        is_declined=answers is not None and answers.declined_seq > turn.retried_seq,
        has_ended=told_at is not None and turn.responses[message.agent] > told_at,
    )


def last_call_of(account: Account, agent: str) -> str:
    """The key of an agent's last call for a budget, in the turn's `last_calls`."""
    return f"{account.scope} {agent}"
