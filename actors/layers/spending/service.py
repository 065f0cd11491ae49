"""Budgets and usage as a service of the Session actor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from actors.actor import Handlers
from actors.interfaces.records import Write
from actors.layers.spending.accounts import BudgetAccounts
from actors.layers.spending.day_sums import DaySums
from actors.layers.spending.messages import GetTurnBudgets, GetUsage, ReserveSpending
from actors.layers.spending.reserving import COUNTED_OF_BUDGETS, TurnBudgets
from actors.layers.spending.stored_usage import StoredUsage
from actors.layers.spending.today import SumsOfToday
from actors.layers.spending.turn_spending import Spending
from actors.layers.spending.usage import UsageReports
from actors.layers.spending.used import UsedBudgets
from actors.messages import protocol as p
from actors.session.log.session_log import SessionLog
from actors.session.log.writer import Events
from actors.session.service import SessionService
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.parts import SessionParts


class SpendingService(SessionService):
    """Answers ReserveSpending, GetTurnBudgets and GetUsage."""

    def __init__(self, parts: SessionParts) -> None:
        parts.counts.update(dict.fromkeys(COUNTED_OF_BUDGETS, 0))
        lookup, prices, usage = TurnLookup(parts), parts.environment.prices, StoredUsage(parts)
        today = SumsOfToday(lambda user: DaySums(usage, parts.logs, has_others=parts.shard.of > 1, user=user))
        today.on_wanted = partial(parts.writer.track, today.track, today.note)
        accounts = BudgetAccounts(parts.versions.topology, usage, today)
        self._budgets = TurnBudgets(parts.logs, lookup, accounts, prices, parts.counts)
        self._used = UsedBudgets(parts, lookup, accounts, prices)
        self._usage = UsageReports(usage, prices)
        parts.append_hooks.append(_end_call)

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            ReserveSpending: self._budgets.reserve,
            GetTurnBudgets: self._used.get_turn_budgets,
            GetUsage: self._usage.get_usage,
        }


def _end_call(log: SessionLog, message: p.Append, events: Events) -> Sequence[Write]:
    turn = log.turn
    assert turn is not None
    is_changed = Spending.of(turn).end_call(turn, message.turn.run, events)
    return [log.put_turn(turn.record())] if is_changed else ()
