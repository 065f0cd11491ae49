"""What turns have used, as the store has it: the sums of most of them, and the events of the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence

from actors.errors import StoreError
from actors.interfaces.store_abilities.usage import ReportsUsage, UnsummedTurn, UsageFilter
from actors.messages.session import SessionKey
from actors.rules.accounting.report import day_of, turn_group
from actors.rules.accounting.turn_usage import Spent, TurnUsage, packed, sum_of_packed
from actors.session.log.event_scan import scan
from actors.session.log.reader import PAGE
from actors.session.turns.parts import SessionParts


class StoredUsage:
    """Reads what turns have used."""

    def __init__(self, parts: SessionParts) -> None:
        self._access = parts.access
        self._reader = parts.reader

    async def spent(self, wanted: UsageFilter, without: Collection[tuple[SessionKey, str]]) -> Spent:
        """The sums of turns. Raises StoreError.

        Args:
            without: the sessions and the ids of turns that run, and are left out.
        """
        return sum_of_packed([raw async for _, turns in self.groups(wanted, without) for raw in turns])

    async def groups(
        self, wanted: UsageFilter, without: Collection[tuple[SessionKey, str]] = ()
    ) -> AsyncIterator[tuple[str, Sequence[bytes]]]:
        """The sums of turns, packed, with the names of their groups; one may come several times. Raises StoreError."""
        store = self._access.store
        if not isinstance(store, ReportsUsage):
            raise StoreError(f"{type(store).__name__} reports no usage: it has no method 'usage' of ReportsUsage")
        await self._access.commits.flush()
        page = await self._access.read(store.usage, wanted)
        while True:
            for group, turns in page.turns.items():
                yield group, turns
            for turn in page.unsummed:
                if (turn.key, turn.invocation_id) not in without:
                    begun = day_of(turn.begun_s)
                    named = {"user": turn.key.user, "day": begun, "version": turn.version, "turn": _group(turn)}
                    yield named.get(wanted.groups, ""), [await self._of_events(turn)]
            if page.next is None:
                return
            page = await self._access.read(store.usage, wanted, page.next)

    async def _of_events(self, turn: UnsummedTurn) -> bytes:
        """The sums of a turn, packed, as its events say."""
        usage = TurnUsage()
        after_seq, before_seq = turn.first_seq - 1, turn.last_seq + 1 if turn.last_seq else None
        while events := await self._reader.part(turn.key, after_seq, before_seq, PAGE, newest=False):
            after_seq = events[-1].seq
            for event in (scan(stored.raw) for stored in events):
                if event.invocation_id == turn.invocation_id:
                    usage.note(event.author, event.model_version, event.amounts())
        return packed(usage.spent)


def _group(turn: UnsummedTurn) -> str:
    return turn_group(turn.key.user, turn.key.session, turn.invocation_id, turn.begun_s)
