"""Usage of turns, added up for a report."""

from __future__ import annotations

from collections.abc import Mapping

from actors.interfaces.store_abilities.usage import UsageFilter
from actors.messages import protocol as p
from actors.messages.operating.usage import Price
from actors.rules.accounting.report import UsageCollector, groups_of
from actors.session.turns.stored_usage import StoredUsage


class UsageReports:
    """Answers GetUsage.

    Args:
        stored: reads what turns have used.
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, stored: StoredUsage, prices: Mapping[str, Price]) -> None:
        self._stored = stored
        self._prices = prices

    async def get_usage(self, message: p.GetUsage) -> p.UsageReply:
        """Add up turns: of most of them the store has the sums, of those that run it has events. Raises StoreError."""
        wanted = UsageFilter(
            app=message.app,
            user=message.user,
            session=message.session,
            invocation_id=message.invocation_id,
            since_s=message.since_s,
            groups=groups_of(message.by),
        )
        collector = UsageCollector(message.by, self._prices)
        async for group, turns in self._stored.groups(wanted):
            collector.add(group, turns)
        return p.UsageReply(report=collector.report())
