"""Usage of turns, added up for a report."""

from __future__ import annotations

from collections.abc import Mapping

from actors.errors import StoreError
from actors.interfaces.usage import ReportsUsage, UnsummedTurn, UsageFilter
from actors.messages import protocol as p
from actors.messages.operating.usage import Price
from actors.rules.accounting.report import UsageCollector, day_of, groups_of
from actors.rules.accounting.turn_usage import TurnUsage, packed
from actors.session.log.event_scan import scan
from actors.session.log.reader import PAGE
from actors.session.turns.parts import SessionParts


class UsageReports:
    """Answers GetUsage.

    Args:
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, parts: SessionParts, prices: Mapping[str, Price]) -> None:
        self._access = parts.access
        self._reader = parts.reader
        self._prices = prices

    async def get_usage(self, message: p.GetUsage) -> p.UsageReply:
        """Add up turns: of most of them the store has the sums, of those that run it has events. Raises StoreError."""
        store = self._access.store
        if not isinstance(store, ReportsUsage):
            raise StoreError(f"{type(store).__name__} reports no usage: it has no method 'usage' of ReportsUsage")
        await self._access.commits.flush()
        wanted = UsageFilter(
            app=message.app,
            user=message.user,
            session=message.session,
            invocation_id=message.invocation_id,
            since_s=message.since_s,
            groups=groups_of(message.by),
        )
        collector = UsageCollector(message.by, self._prices)
        page = await self._access.read(store.usage, wanted)
        while True:
            for group, turns in page.turns.items():
                collector.add(group, turns)
            for turn in page.unsummed:
                named = {"user": turn.key.user, "day": day_of(turn.begun_s)}
                collector.add(named.get(wanted.groups, ""), [await self._of_events(turn)])
            if page.next is None:
                return p.UsageReply(report=collector.report())
            page = await self._access.read(store.usage, wanted, page.next)

    async def _of_events(self, turn: UnsummedTurn) -> bytes:
        """The sums of a turn, packed, as its events say."""
        usage = TurnUsage()
        after_seq, before_seq = turn.first_seq - 1, turn.last_seq + 1 if turn.last_seq else None
        while events := await self._reader.part(turn.key, after_seq, before_seq, PAGE, newest=False):
            after_seq = events[-1].seq
            for event in (scan(stored.raw) for stored in events):
                if event.invocation_id == turn.invocation_id:
                    usage.note(event.used())
        return packed(usage.spent)
