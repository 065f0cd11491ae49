"""Usage of turns, added up for a report."""

from __future__ import annotations

from collections.abc import Mapping

from actors.layers.spending.messages import MOST_TURNS, GetUsage, UsageReply, UsageReport, UsageSums, UsedTurn
from actors.layers.spending.rules.report import CostlyTurns, UsageCollector, groups_of
from actors.layers.spending.stored_usage import StoredUsage
from actors.layers.stores.usage import TurnId, TurnName, UsageFilter
from actors.messages.costs import Price
from actors.messages.session import SessionKey


class UsageReports:
    """Answers GetUsage.

    Args:
        stored: reads what turns have used.
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, stored: StoredUsage, prices: Mapping[str, Price]) -> None:
        self._stored = stored
        self._prices = prices

    async def get_usage(self, message: GetUsage) -> UsageReply:
        """Add up turns: of most of them the store has the sums, of those that run it has events. Raises StoreError."""
        if message.turns:
            return UsageReply(report=UsageReport(), reports=[await self._single(key, name) for key, name in message.turns])
        wanted = UsageFilter(
            app=message.app,
            user=message.user,
            session=message.session,
            invocation_id=message.invocation_id,
            since_s=message.since_s,
            groups=groups_of(message.by),
        )
        if message.by == "turn":
            return UsageReply(report=await self._by_turn(wanted))
        return UsageReply(report=await self._collected(wanted, message.by))

    async def _single(self, key: SessionKey, invocation_id: str) -> UsageReport:
        return await self._collected(UsageFilter(app=key.app, user=key.user, session=key.session, invocation_id=invocation_id))

    async def _collected(self, wanted: UsageFilter, by: str = "") -> UsageReport:
        collector = UsageCollector(by, self._prices)
        async for group, turns in self._stored.groups(wanted):
            collector.add(group, turns)
        return collector.report()

    async def _by_turn(self, wanted: UsageFilter) -> UsageReport:
        collector = UsageCollector("turn", self._prices)
        costly = CostlyTurns[TurnId | TurnName](self._prices, MOST_TURNS, collector.sums)
        async for turns, names in self._stored.single(wanted):
            collector.add("", turns)
            costly.add(turns, names)
        found = await self._stored.named(costly.found())
        return collector.report([_used_turn(name, sums) for name, sums in found])


def _used_turn(name: TurnName, sums: UsageSums) -> UsedTurn:
    return UsedTurn(user_id=name.user, session_id=name.session, invocation_id=name.invocation_id, begun_s=name.begun_s, sums=sums)
