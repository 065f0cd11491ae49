"""The budgets that bound what a run is about to do, with what is used of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from actors.layers.retries import LastRetry
from actors.layers.spending.messages import ReserveSpending
from actors.layers.spending.rules.budgets import Account, LikelyCall, is_overdrawn, raised
from actors.layers.spending.stored_usage import DaySums, StoredUsage, SumsOfToday
from actors.layers.spending.turn_spending import Spending
from actors.layers.stores.records import UsageFilter
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.rules.accounting import Spent, together
from actors.rules.routing.branches import tool_root
from actors.session.log.open_turn import SessionTurn

RESERVED_S = 600.0
"""A call that has not ended after so long was stopped, and its run with it, of which this actor is not told."""

NOTHING_SPENT: Spent = {}


class OthersSpent(NamedTuple):
    """What others than a turn have used of its budgets.

    Attributes:
        of_session: what other turns of its session have.
        of_user: what all turns of its user have today, the turn itself too; None: it has no such budget.
    """

    of_session: Spent = NOTHING_SPENT
    of_user: DaySums | None = None


class BudgetAccounts:
    """Says how far the budgets of a turn are used.

    Args:
        topology: gives the tree of a version, which says who is below an agent with a budget.
        stored: reads what other turns have used.
        today: what all turns of the day have used.
    """

    def __init__(self, topology: Callable[[str], Topology], stored: StoredUsage, today: SumsOfToday) -> None:
        self._stored = stored
        self._today = today
        self._below = lru_cache(1_000)(lambda name, version: agents_below(topology(version), name))

    async def read(self, key: SessionKey, turn: SessionTurn) -> OthersSpent:
        """Read what the store has to say about a turn's budgets. Raises StoreError."""
        config, spending = turn.config, Spending.of(turn)
        this = [(key, turn.row.invocation_id)]
        if config.session_budget is not None and spending.used_before is None:
            # No other turn of the session runs while this one does.
            wanted = UsageFilter(app=key.app, user=key.user, session=key.session)
            spending.used_before = await self._stored.spent(wanted, this)
        if config.app_daily_budget is not None:
            await self._today.of_app(key)
        of_user = await self._today.of_user(key, turn) if config.user_daily_budget is not None else None
        return OthersSpent(spending.used_before or NOTHING_SPENT, of_user)

    def accounts(self, message: ReserveSpending, turn: SessionTurn, others: OthersSpent, at_s: float) -> list[Account]:
        """The accounts that a run has to fit into.

        Args:
            at_s: now, on the event loop's clock.
        """
        if turn.config.app_daily_budget is not None:
            self._today.app.track(message.turn.key, turn)
        self._today.note(message.turn.key, turn)
        return [_as_met(each, turn, message) for each in self._accounts(message, turn, others, at_s)]

    def all(self, key: SessionKey, turn: SessionTurn, others: OthersSpent) -> list[Account]:
        """The accounts of all agents of a turn, of whom none is about to do anything."""
        found: dict[str, Account] = {}
        this = p.TurnRef(key, turn.row.invocation_id, turn.row.epoch)
        for agent in ("", *(turn.config.agent_budgets or {})):
            message = ReserveSpending(turn=this, agent=agent)
            for account in self._accounts(message, turn, others, math.inf):
                found.setdefault(account.scope, _as_met(account, turn, message))
        return list(found.values())

    def _accounts(self, message: ReserveSpending, turn: SessionTurn, others: OthersSpent, at_s: float) -> Iterator[Account]:
        config, key, spent = turn.config, message.turn.key, turn.ledger.spent
        # The run may ask again, since the reply was lost: it has one call under way at most.
        under_way = Spending.of(turn).reserved.items()
        reserved = [(run, call) for run, (call, since_s) in under_way if at_s - since_s < RESERVED_S]
        here = [call for run, call in reserved if run != message.turn.run]
        if config.budget is not None:
            yield Account("turn", f"turn {turn.row.invocation_id!r}", config.budget, spent, here)
        for name, budget in (config.agent_budgets or {}).items():
            below = self._below(name, turn.row.version)
            if message.agent in below:
                used = {spender: amounts for spender, amounts in spent.items() if spender[0] in below}
                calls = [call for call in here if call.agent in below]
                yield Account(f"agent:{name}", f"agent {name!r}", budget, used, calls)
        if config.session_budget is not None:
            yield Account("session", f"session {key.session!r}", config.session_budget, together(others.of_session, spent), here)
        if config.user_daily_budget is not None and others.of_user is not None:
            whose = f"user {key.user!r} today"
            yield Account("user", whose, config.user_daily_budget, *_of_day(others.of_user, message, at_s))
        if config.app_daily_budget is not None:
            yield Account("app", f"app {key.app!r} today", config.app_daily_budget, *_of_day(self._today.app, message, at_s))


def _of_day(sums: DaySums, message: ReserveSpending, at_s: float) -> tuple[Spent, list[LikelyCall]]:
    """The sums of a daily budget, and the calls that others have under way."""
    this = (message.turn.key, message.turn.invocation_id, message.turn.run)
    found = sums.under_way(at_s - RESERVED_S)
    under_way = [call for key, invocation_id, run, call in found if (key, invocation_id, run) != this]
    return sums.spent(), under_way


def _as_met(account: Account, turn: SessionTurn, message: ReserveSpending) -> Account:
    """An account as an agent meets it, after what the user has answered, and the agent had to do."""
    budget, answers = account.budget, Spending.of(turn).answers.get(account.scope)
    if budget.at_limit == "ask" and tool_root(message.branch) is not None:
        # An agent that is asked as a tool cannot pause the turn: the one that has asked it will.
        budget = msgspec.structs.replace(budget, at_limit="stop")
    if answers is not None:
        budget = raised(budget, answers.more)
    return account._replace(
        budget=budget,
        is_declined=answers is not None and answers.declined_seq > LastRetry.of(turn).seq,
        has_ended=_has_ended(account, turn, message.agent),
    )


def _has_ended(account: Account, turn: SessionTurn, agent: str) -> bool:
    """True if an agent has made its last call: it was told so, or a call that was not counted in time exceeds it."""
    if account.budget.at_limit != "wrap_up":
        return False
    spending = Spending.of(turn)
    told_at = spending.last_calls.get(last_call_of(account, agent))
    if told_at is not None and turn.ledger.steps.get(agent, 0) > told_at:
        return True
    return agent in spending.unreserved and is_overdrawn(account)


def last_call_of(account: Account, agent: str) -> str:
    """The key of an agent's last call for a budget, in `Spending.last_calls`."""
    return f"{account.scope} {agent}"


def agents_below(topology: Topology, name: str) -> frozenset[str]:
    """The agent itself and all below it: its children, the agents that it has as tools, the workers of its flow, and all theirs.

    Returns:
        Their names; that of the agent alone, if it is not in the tree.
    """
    found: dict[str, None] = {name: None}
    left = [name]
    while left:
        node = topology.find(left.pop())
        if node is None:
            continue
        for each in (*node.children, *node.tool_agents, *node.workers):
            if each not in found:
                found[each] = None
                left.append(each)
    return frozenset(found)
